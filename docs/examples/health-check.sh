#!/bin/sh
# A HealthCheckProgram for Slurm: drain an idle node if the env or a GPU is broken.
# slurm.conf: HealthCheckProgram=/etc/slurm/rocenv-health-check.sh
#             HealthCheckInterval=600
#             HealthCheckNodeState=IDLE
export ROCENV_HOME=/opt/rocenv/home
is_drained() { # if so, keep the reason of whoever drained the node, even during the check
    case $(sinfo --noheader --nodes="$SLURMD_NODENAME" --format=%T) in
    drain*) ;;
    *) false ;;
    esac
}
is_drained && exit 0
reason=$(/opt/rocenv/bin/rocenv verify demo --node --timeout 50) && exit 0
is_drained || scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="${reason:-rocenv:error}"
