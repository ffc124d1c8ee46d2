"""The jobs of the golden set: what is recorded, and what is made of it (golden.py says more)."""

import os
import re
import shutil
import subprocess
import tarfile
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

RELEASES = "2.23.4 2.24.3 2.25.1 2.26.5 2.27.7 2.28.9 2.29.7 2.30.7 2.31.2 2.32.3".split()
# Options of `nccl-otf2 finalize`, by the name of their set.
SETS = {
    "default": [],
    "other": "--level standard --metrics all --comm-lanes cpu --collectives nonblocking".split(),
    "light": "--level light --metrics bandwidth --collectives none".split(),
}
# When `hang` looked.
NOW = re.compile(r'(?<=^  "time_ns": )\d+(?=,$)', re.MULTILINE)
BOTH, ALL = ("default", "other"), tuple(SETS)
FOUR = "--procs 2 --threads 2"

# programs: argument lists that run at the same time; files: scripts by name; codes: that are expected, with -9 of
# a timeout; merge: further options of putting it into a trace of Score-P, or None.
Job = namedtuple("Job", "name programs variables files codes sets merge")


def job(name, *programs, variables=None, files=None, codes=(0,), sets=("default",), merge=None):
    return Job(name, [words.split() for words in programs], variables or {}, files or {}, codes, sets, merge)


def nccl(name, release, arguments, **more):
    """A job of a real NCCL on the stand-in for a GPU."""
    words = f"{{bin}}/nccl-host --lib {{nccl}}/{release}/libnccl.so.2 --fake-gpu={{bin}}/libfakegpu.so {arguments}"
    return job(f"{name}-{release}", words, **more)


def script(name, *names, arguments="", **more):
    words = "{{bin}}/plugin-host script {} --plugin {{plugin}} {}"
    return job(name, *(words.format(name, arguments) for name in names), **more)


def replay(name, streams, arguments="", **more):
    files = " ".join(f"{{streams}}/{stream}.jsonl" for stream in streams)
    return job(name, f"{{bin}}/plugin-host replay {files} --plugin {{plugin}} {arguments}", **more)


ASKS = """init c id=9 ranks=2 rank=0
start x Coll func=AllReduce count=1 datatype=ncclFloat32
give c
give x
stop x
take done
finalize c
"""
WORKS = """init own id=9 ranks=2 rank=1
take c
take x
start p ProxyOp ctx=c parent=x channel=3 peer=1 steps=1 is_send=1 pid=4242
start s ProxyStep ctx=c parent=p step=0
state s ProxyStepSendWait bytes=64
stop s
stop p
set done p
give done
finalize own
"""
# More than the window of a flight recording holds.
LONG = """init c id=0x1234 name=train ranks=1 rank=0
start first CollApi ctx=c func=Broadcast count=1 datatype=ncclInt8 root=0
repeat 40000 {
  start ca CollApi ctx=c func=AllReduce count=7 datatype=ncclFloat32 root=0 stream=0x77
  stop ca
  start co Coll ctx=c parent=ca rank=0 func=AllReduce count=7 datatype=ncclFloat32 channels=1 algorithm=RING protocol=LL
  stop co
}
stop first
start last CollApi ctx=c func=AllGather count=2 datatype=ncclInt8
stop last
"""
EVERYTHING = "{source}/tests/support/everything.script"
MIXED = ["mixed-2procs-sockets.rank0", "mixed-2procs-sockets.rank1"]
GPUS = ["allreduce-4gpu-1process"]
FAKE = {"LD_PRELOAD": "{bin}/libfakegpu.so"}
PLAYED = {**FAKE, "NCCL_OTF2_GPU": "cupti", "NCCL_OTF2_CUPTI_LIB": "{bin}/libfake_cupti.so", "FAKECUPTI_API": "130500"}
CLOCKS = "--procs 4 --threads 1 --exact --rounds 4 --count 5000 --ops allreduce,sendrecv,group --host-clocks "
CLOCKS += "0,0;10000000000,50000;-7000000000,-50000;3000000,20000"
WORK = f"{FOUR} --rounds 2 --ops allreduce,sendrecv,group,graph"
TIMEOUT = (124, 2, 3)


def cupti(api, kernels):
    return {
        "NCCL_OTF2_GPU": "cupti",
        "LD_LIBRARY_PATH": "{probes}",
        "NCCL_OTF2_CUPTI_KERNELS": kernels,
        "FAKECUPTI_API": api,
    }


def flight(**limits):
    return {"NCCL_OTF2_MODE": "flight", **{f"NCCL_OTF2_FLIGHT_{name}": value for name, value in limits.items()}}


JOBS = [
    *(
        nccl("processes", release, f"{FOUR} --exact", sets=ALL if release in ("2.28.9", "2.32.3") else BOTH[:1])
        for release in RELEASES
    ),
    nccl("hosts", "2.32.3", "--procs 4 --threads 1 --hosts --exact", sets=BOTH, merge=""),
    nccl("clocks", "2.28.9", CLOCKS, variables={"NCCL_OTF2_EVENTS": "standard,ProxyStep"}, sets=BOTH, merge=""),
    nccl("clocks", "2.31.2", CLOCKS),
    nccl("init-all", "2.29.7", "--threads 4 --init-all --end destroy --exact"),
    nccl("ll", "2.26.5", f"{FOUR} --exact", variables={"NCCL_PROTO": "LL"}),
    nccl("tree", "2.30.7", f"{FOUR} --ops allreduce,sendrecv,alltoall,graph", variables={"NCCL_ALGO": "Tree"}),
    nccl("shm", "2.31.2", FOUR, variables={"NCCL_SHM_DISABLE": "0"}),
    nccl(
        "net-plugin",
        "2.32.3",
        f"{FOUR} --exact --ops allreduce,sendrecv,graph",
        variables={"NCCL_NET_PLUGIN": "probe", "NCCL_NET": "Probe", "LD_LIBRARY_PATH": "{probes}"},
        sets=BOTH,
    ),
    nccl("abort", "2.28.9", f"{FOUR} --end abort --exact"),
    nccl("stuck", "2.30.7", f"{FOUR} --end stuck"),
    nccl("exit", "2.32.3", f"{FOUR} --end exit --exact"),
    nccl("graph", "2.28.9", f"{FOUR} --ops graph --rounds 2 --exact"),
    nccl("graph", "2.32.3", f"{FOUR} --ops graph --rounds 2 --exact", sets=BOTH),
    nccl("several", "2.27.7", f"{FOUR} --ops allreduce,several,split --exact"),
    nccl("several-threads", "2.32.3", f"{FOUR} --ops threads --exact", sets=BOTH),
    nccl("destroy-order", "2.31.2", f"{FOUR} --ops one,sendrecv --end order --exact"),
    nccl("nonblocking", "2.28.9", f"{FOUR} --nonblocking --exact --ops allreduce,group,split"),
    nccl("uneven", "2.32.3", f"{FOUR} --ops uneven --exact", variables={"NCCL_OTF2_EVENTS": "light"}),
    nccl("window", "2.32.3", f"{FOUR} --rounds 3 --exact", variables={"NCCL_OTF2_WINDOW": "3-6,9-10"}),
    nccl("no-room", "2.28.9", f"{FOUR} --exact", variables={"NCCL_OTF2_MAX_SIZE": "3M"}),
    nccl("killed", "2.28.9", f"{FOUR} --rounds 0 --ops one --kill-after 0.7", codes=(3,), sets=BOTH),
    nccl("killed", "2.32.3", f"{FOUR} --rounds 0 --exact --kill-after 1.5", codes=(3,)),
    nccl(
        "one-killed",
        "2.32.3",
        f"{FOUR} --rounds 0 --ops allreduce --kill-after 1 --kill-rank 2 --timeout 10",
        codes=TIMEOUT,
    ),
    nccl("skip-last", "2.28.9", f"{FOUR} --ops allreduce,sendrecv,one --skip-last 1 --timeout 9", codes=TIMEOUT),
    nccl("mismatch", "2.32.3", f"{FOUR} --ops mismatch --timeout 9", codes=TIMEOUT),
    nccl("crossed", "2.28.9", "--procs 2 --threads 1 --ops crossed --timeout 9", codes=TIMEOUT),
    nccl("chain", "2.32.3", "--procs 3 --threads 1 --ops chain --timeout 9", codes=TIMEOUT),
    nccl("flight", "2.32.3", f"{FOUR} --ops repeat --iterations 3000", variables=flight(SIZE="8M")),
    nccl(
        "flight-killed",
        "2.28.9",
        f"{FOUR} --rounds 0 --ops one --kill-after 6",
        codes=(3,),
        variables=flight(SECONDS="1"),
    ),
    nccl("gpu-events", "2.28.9", WORK, variables={"NCCL_OTF2_GPU": "events"}),
    nccl("gpu-events", "2.32.3", WORK, variables={"NCCL_OTF2_GPU": "events"}, sets=BOTH),
    nccl("gpu-cupti", "2.28.9", WORK, variables=cupti("22", "nccl"), sets=BOTH),
    nccl("gpu-cupti", "2.32.3", WORK, variables=cupti("130500", "all")),
    script("flight-script", "long", files={"long": LONG}, variables=flight(SIZE="8M")),
    *(
        script(f"everything-v{table}", EVERYTHING, arguments=f"--table {table}", sets=BOTH)
        for table in range(1, 8)
    ),
    *(
        script(f"pxn-v{table}", "asks", "works", arguments=f"--table {table}", files={"asks": ASKS, "works": WORKS})
        for table in (4, 7)
    ),
    replay("mixed", MIXED, "--all-events", sets=ALL),
    replay("mixed-v3", MIXED, "--table 3 --rank-environment", merge="--map 0=2 --map 1=1"),
    replay("mixed-unfinished", MIXED, "--no-finalize --rank-environment", sets=BOTH),
    replay("four-gpus", GPUS, "--speed recorded", sets=BOTH),
    replay("four-gpus-cupti", GPUS, "--speed recorded --cupti {bin}/libfake_cupti.so", variables=PLAYED, sets=BOTH),
    job("scale", "{scale} record 4 5000 out", sets=ALL),
]


def record(job, places, folder):
    """Runs a job in a folder; what it recorded is in `out` there. None, or why it could not be recorded."""
    variables = {
        "NCCL_OTF2_DIR": str(folder / "out"),
        "NCCL_OTF2_EVENTS": "full",
        "NCCL_OTF2_FINALIZE": "offline",
        "NCCL_OTF2_VERBOSITY": "quiet",
        "NCCL_PROFILER_PLUGIN": "{plugin}",
        **job.variables,
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    environment |= {name: value.format(**places) for name, value in variables.items()}
    for name, text in job.files.items():
        (folder / name).write_text(text)

    def run(words):
        words = [word.format(**places) for word in words]
        try:
            done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=150)
        except subprocess.TimeoutExpired:
            return f"{words} did not end"
        return None if done.returncode in job.codes else f"{done.returncode} of {words}\n{done.stdout}{done.stderr}"

    with ThreadPoolExecutor(len(job.programs)) as pool:
        failures = [failure for failure in pool.map(run, job.programs) if failure]
    return "\n".join(failures) or (None if (folder / "out" / "parts").is_dir() else "nothing was recorded")


def convert(out):
    """Brings journals into the form that the compared tool reads: the format's number starts again at 1."""
    for path in out.glob("parts/*/journal/*"):
        with path.open("r+b") as file:
            for segment in range(0, path.stat().st_size, 1 << 20):
                file.seek(segment)
                head = file.read(12)
                if head[:8] == b"NCCLOTF2" and head[8:] == (5).to_bytes(4, "little"):
                    file.seek(segment + 8)
                    file.write((1).to_bytes(4, "little"))
    return out


def commands(job, name, out, merge):
    """Name and arguments of what is run, in this order."""
    part = min((out / "parts").iterdir()).relative_to(out.parent)
    before = [
        ("hang", ["hang", "--json", "--all", "--after", "0", "out"]),
        ("print-journals", ["print", "--limit", "400", "out/parts"]),
        ("print-part-json", ["print", "--json", "--limit", "3000", part]),
    ]
    write = [("finalize", ["finalize", "--json", "--keep-journal", "--jobs", "1", *SETS[name], "out"])]
    after = [
        ("info", ["info", "--json", "out"]),
        ("info-text", ["info", "out"]),
        ("check", ["check", "--json", "out"]),
        ("print", ["print", "--limit", "400", "out"]),
        ("print-json", ["print", "--json", "--limit", "1000", "out"]),
    ]
    if name == "default":
        after.append(("export", ["export", "--json", "--format", "scalasca", "--out", "scalasca", "out"]))
        if job["merge"] is not None:
            words = ["merge", "--json", "--align-start", "0.001", *job["merge"].split(), "-o", "merged"]
            after.append(("merge", [*words, merge, "out"]))
    return [*(before if name == "default" else []), *write, *after]


def produce(tool, job, name, golden, folder, merge):
    """What is compared of a job and a set of options, made by a tool in a new folder; the journals are removed."""
    folder.mkdir(parents=True)
    with tarfile.open(golden / "pristine.tar.gz") as archive:
        archive.extractall(folder, filter="fully_trusted")
    out = convert(folder / "out")
    for label, words in commands(job, name, out, merge):
        done = subprocess.run([tool, *words], cwd=folder, capture_output=True, text=True, errors="replace", timeout=600)
        text = f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}".replace(str(folder.resolve()), "<folder>")
        text = NOW.sub("<now>", text.replace(str(merge), "<scorep>"))
        (folder / f"{label}.txt").write_text(text)
    shutil.rmtree(out / "parts")
