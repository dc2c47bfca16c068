#!/bin/sh
# A prolog for Slurm: drain the node, with a reason, if the env or a GPU is broken. Slurm requeues the job.
# slurm.conf: Prolog=/etc/slurm/rocenv-prolog.sh
export ROCENV_HOME=/opt/rocenv/home
reason=$(/opt/rocenv/bin/rocenv verify demo --node --level quick --timeout 20) && exit 0
scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="${reason:-rocenv:error}"
exit 1
