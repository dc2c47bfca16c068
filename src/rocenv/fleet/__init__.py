"""Checks of a cluster's nodes.

verify --node ─► node.watch        the watchdog: never touches the env, the home or a GPU
                   └─ node.main    its child: detects the GPUs and runs the ladder
fleet verify  ─► run               runs `verify --node` on all nodes with srun or clush
fleet report  ─► results, compare  reads the result files; finds what differs, and the nodes to drain
"""
