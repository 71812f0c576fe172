# Finds a Python on a target and starts the stub with it. See bootstrap.py, which fills in {names}, and sends this to sh.
# No tabs and no line of 4096 bytes: there may be a terminal in between. What it found instead of a Python is on stderr.
{
stub={stub}
names="python3 python3.14 python3.13 python3.12 python3.11 python3.10"
tried=; unfit=; containers=; foreign=; namespaces=

# try PROGRAM HOW: run the stub with it, or note why not.
try() {
    path=$(command -v "$1" 2>/dev/null) || return 0
    case " $tried " in *" $path "*) return 0;; esac
    tried="$tried $path"
    if "$path" -S -c {fits} </dev/null >/dev/null 2>&1; then exec "$path" -c "$stub" "found=$2"; fi
    version=$("$path" -V 2>&1 </dev/null) && unfit="$unfit $path=${version#Python }"
    return 0
}

for name in $names; do try $name path; done

# A shell that is not a login shell has a short PATH.
for folder in /usr/local/bin /usr/bin /opt/venv/bin /opt/conda/bin "$HOME/.local/bin" \
    "$HOME/miniconda3/bin" "$HOME/miniforge3/bin" "$HOME"/.pyenv/versions/*/bin "$HOME"/.local/share/uv/python/*/bin
do
    for name in $names; do try "$folder/$name" place; done
done

# Running servers. read leaves out the zero bytes between the words of a command line.
ours=$(readlink /proc/self/ns/mnt)
for process in /proc/[0-9]*; do
    words=
    { read -r words <$process/cmdline; } 2>/dev/null
    case $words in
        {servers}) ;;
        *) continue;;
    esac
    pid=${process#/proc/}
    program=$(readlink $process/exe 2>/dev/null)
    theirs=$(readlink $process/ns/mnt 2>/dev/null)
    case $program in
        */python*) ;;
        "") words=; { read -r words <$process/cmdline; } 2>/dev/null
            [ -n "$words" ] && foreign="$foreign $pid"; continue;;
        *) continue;;
    esac
    if [ "$theirs" = "$ours" ]; then
        if [ -O $process ] || [ -O "$program" ]; then try "$program" "server $pid"; else foreign="$foreign $pid"; fi
        continue
    fi
    case " $namespaces " in *" $theirs "*) continue;; esac
    namespaces="$namespaces $theirs"
    group=
    { read -r group <$process/cgroup; } 2>/dev/null
    containers="$containers $pid=$group"
done

for each in $containers; do echo "launchmon: container $each" >&2; done
for each in $foreign; do echo "launchmon: foreign $each" >&2; done
for each in $unfit; do echo "launchmon: unfit $each" >&2; done
[ -n "$containers$foreign" ] && exit {elsewhere}
[ -n "$unfit" ] && exit {unfit}
exit {none}
}
