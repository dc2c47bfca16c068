"""Check the nodes of a cluster.

verify --node ─► node.watch        the watchdog: does not access the env, the home or a GPU
                   └─ node.main    its child: detects the GPUs and runs the ladder
fleet verify  ─► run               runs `verify --node` on all nodes with srun or clush
fleet report  ─► results, compare  reads the result files, finds differences, and decides which nodes to drain
"""
