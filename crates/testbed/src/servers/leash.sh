# Parent-death guard of one server: the server does not outlive the owner of this shell's stdin.
#   arguments  the server's directory, then its command line
#   stdin      a line: the owner has killed the server; wait for its end, then exit. End of file:
#              the owner is gone; kill the server (even a stopped one) and remove its directory.
#   stdout     the server's process id
#   stderr     the server's log. Only the server keeps it open, so its end is the server's end.

# The kernel sends SIGHUP to a process group that loses its owner while one of its processes is
# stopped. With a paused server that would end this shell just when it is needed.
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
# Files of libfaketime, if the server used it.
rm -f "/dev/shm/faketime_shm_$pid" "/dev/shm/sem.faketime_sem_$pid"
