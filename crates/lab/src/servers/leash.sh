# One server on a leash: it does not outlive whoever holds the other end of our stdin.
#   arguments  the server's directory, then its command line
#   stdin      a line: the server has been killed, see it out and end. End of file: our owner is
#              gone, so kill the server (this ends a stopped one, too) and remove its directory.
#   stdout     the server's process id
#   stderr     what the server logs; it alone holds it, so its end is the server's end

# A process group that loses its owner while one of it is stopped is sent SIGHUP by the kernel: with
# a paused server that would end this shell just when it is needed.
trap '' HUP
dir=$1
shift
"$@" </dev/null >&2 &
pid=$!
exec 2>/dev/null
echo "$pid"
if read -r _; then
    wait "$pid"
    exit
fi
kill -KILL "$pid"
wait "$pid"
rm -rf "$dir"
# Of libfaketime, if the server had it.
rm -f "/dev/shm/faketime_shm_$pid" "/dev/shm/sem.faketime_sem_$pid"
