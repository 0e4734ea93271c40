#!/usr/bin/env bash
# Tries cluster.yaml on one machine that plays three: an operator, a head and a worker, each with processes, a network
# address, a home and a /tmp of its own (Linux namespaces): `ray stop` ends every Ray of a machine, and so no other one.
# Prints what a person would see. Needs root, iproute2, OpenSSH and rsync, and for some minutes 5 GB of /tmp.
set -euo pipefail
home=/mnt/ray

outside() {
    local tool copy
    [ "$(id -u)" = 0 ] || { echo "This needs root, to make networks."; exit 2; }
    for tool in unshare ip sshd ssh rsync git make python3; do
        command -v $tool > /dev/null || { echo "This needs $tool."; exit 2; }
    done
    work=$(mktemp -d /tmp/seedbed-cluster.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    copy=$work/operator/ray/seedbed
    mkdir -p "$copy" "$work"/operator/ray/{tmp,.ssh} "$work/wheels"
    git ls-files -coz --exclude-standard | rsync -a --from0 --ignore-missing-args --files-from=- . "$copy"
    rsync -a .git "$copy"
    ssh-keygen -q -t ed25519 -N '' -f "$work/operator/ray/.ssh/id_ed25519"
    # A text of as many symbols as the study wants.
    python3 -c 'for i in range(50_000): print(chr(0x4E00 + i * i % 7919 % 1301), end="")' > "$copy/text.txt"
    # The machines have no way out, so their packages are fetched here.
    python3 -m pip download -q -d "$work/wheels" -c constraints.txt 'setuptools>=77' "$copy[dev]" 2> /dev/null
    unshare --mount --net --pid --fork --mount-proc --kill-child bash "$0" operator "$work" "$PWD" 2>&1 |
        sed -uE 's/\x1b\[[0-9;?]*[A-Za-z]//g; s/\r//g; /node_provider.py|Shared connection|Permanently added/d' |
        tee docs/cluster_check.log
}

operator() { # $1: the folder of all that is made, $2: of the project
    local machine address=2
    mount -t tmpfs tmpfs /run
    ip link set lo up
    ip link add lan type bridge
    ip address add 10.77.0.1/24 dev lan
    ip link set lan up
    for machine in head worker; do
        ip netns add $machine
        ip link add $machine type veth peer name eth0 netns $machine
        ip link set $machine master lan up
        ip netns exec $machine unshare --mount --pid --uts --fork --mount-proc --kill-child \
            bash "$0" machine $machine 10.77.0.$address "$1" &
        address=$((address + 1))
    done
    settle "$1/operator"
    trap 'exit 130' INT TERM # else the first process of a machine hears neither
    export TMPDIR=$home/tmp RAY_TMPDIR=$home/tmp PATH=$2/.venv/bin:$PATH
    cd $home/seedbed
    story
}

machine() { # $1: its name, $2: its address, $3: the folder of all that is made
    hostname "$1"
    ip link set lo up
    ip address add "$2/24" dev eth0
    ip link set eth0 up
    ip route add default via 10.77.0.1
    mkdir -p "$3/$1"/{ray/.ssh,tmp,wheels} /run/sshd
    mount --bind "$3/wheels" "$3/$1/wheels"
    cp "$3/operator/ray/.ssh/id_ed25519.pub" "$3/$1/ray/.ssh/authorized_keys"
    ssh-keygen -q -t ed25519 -N '' -f "$3/$1/host_key"
    echo "export PATH='$PATH' PIP_NO_INDEX=1 PIP_NO_COMPILE=1 PIP_FIND_LINKS=/mnt/wheels" > "$3/$1/ray/.bashrc"
    settle "$3/$1"
    mount --bind /mnt/tmp /tmp
    exec "$(command -v sshd)" -D -e -f /dev/null -h /mnt/host_key -o UsePAM=no -o StrictModes=no -o LogLevel=ERROR
}

settle() { # $1: the folder that this machine sees as /mnt, where its user's home is
    mount --rbind "$1" /mnt
    sed "s,^\(root:.*\):/root:,\1:$home:," /etc/passwd > /mnt/passwd
    mount --bind /mnt/passwd /etc/passwd
    export HOME=$home
}

say() { printf '\n# %s\n' "$*"; }

run() { # show a command and give it
    printf '$ %s\n' "$*"
    eval "$*"
}

ray() { # for people, although nobody sits at a terminal here
    case $1 in up | exec | down) set -- "$1" --log-style pretty --log-color false "${@:2}" ;; esac
    command ray "$@"
}

on() { ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR "10.77.0.$1" "$2"; } # $1: 2 is the head and 3 the worker

rays() { on "$1" "pgrep -fc '^ray::|raylet/raylet |gcs/gcs_server '" || true; }

wait_until() { # $1: a condition, within 15 minutes
    local start=$SECONDS
    until eval "$1"; do
        [ $((SECONDS - start)) -lt 900 ] || { echo "Not within 15 minutes."; exit 1; }
        sleep 2
    done
    echo "After $((SECONDS - start)) s."
}

story() {
    local study=".venv/bin/python sweeps/ffn_ratio.py --preset quick --steps 20 --seeds 3 --corpus text.txt"

    say "As it comes, without addresses."
    run 'ray up -y cluster.yaml' && exit 1

    say "Filled in."
    run 'sed -i "s/# head_ip: [^ ]*/head_ip: 10.77.0.2/; s/: ubuntu/: root/" cluster.yaml'
    run 'sed -i "s/# worker_ips: [^]]*/worker_ips: [10.77.0.3/" cluster.yaml'
    run 'ray get-auth-token --generate > /dev/null'
    run 'ray up -y cluster.yaml'

    say "The head goes on by itself: it sets the worker up."
    wait_until '[ "$(rays 3)" -gt 0 ]'
    sleep 10
    run 'ray exec cluster.yaml "ray status"'

    say "Three arms with three seeds."
    run "ray exec cluster.yaml 'set -o pipefail; cd seedbed; $study --address auto | cat'"
    for machine in 2 3; do # a worker process that trained has said so in its log
        trained=$(on $machine 'cat /tmp/ray/session_latest/logs/worker-*.out | grep -c actor_name')
        echo "10.77.0.$machine: $trained processes trained"
        [ "$trained" -gt 0 ]
    done

    say "The results come back."
    run 'ray rsync-down cluster.yaml "~/seedbed/results/" results/'
    run 'python -m analysis.report results/*'

    say "On the head, without the token."
    on 2 "mv ~/.ray/auth_token ~/.ray/away"
    on 2 "cd seedbed; RAY_AUTH_MODE=token $study --seeds 4 --address 10.77.0.2:6379" && exit 1
    on 2 "mv ~/.ray/away ~/.ray/auth_token"

    say "The end."
    run 'ray down -y cluster.yaml'
    echo "Processes of Ray on the head: $(rays 2)"
    [ "$(rays 2)" = 0 ]
    say "The worker misses the head and ends as well."
    wait_until '[ "$(rays 3)" = 0 ]'
}

"${@:-outside}"
