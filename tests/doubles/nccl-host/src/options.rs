//! The command line.

use crate::program::Programs;
use clap::builder::ArgPredicate;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// Runs NCCL operations on a few ranks of this machine, checks the results and logs each call.
///
/// Ranks are threads of worker processes: `--procs 2 --threads 2` makes 4 ranks, of which process 0 hosts
/// ranks 0 and 1. NCCL is the library of `--lib`; the GPU is the real one, or the stand-in of `--fake-gpu`.
#[derive(Parser, Debug, Clone)]
#[command(version, after_long_help = HELP)]
pub(crate) struct Options {
    /// The NCCL library to use (libnccl.so.2)
    #[arg(long, value_name = "PATH", default_value = "libnccl.so.2")]
    pub(crate) lib: PathBuf,

    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) procs: u16,

    /// Ranks per worker process, each a thread
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    #[arg(default_value_if("program", ArgPredicate::IsPresent, "1"))]
    pub(crate) threads: u16,

    /// Create the communicators with ncclCommInitAll instead of one ncclCommInitRank per thread (one process)
    #[arg(long)]
    pub(crate) init_all: bool,

    /// Operations, by name and in this order of the list below; `all` is every one that this release runs safely
    #[arg(long, value_name = "LIST", default_value = "all", value_delimiter = ',')]
    pub(crate) ops: Vec<String>,

    /// Instead of --ops: what each rank calls, in words (see below); one process a rank
    #[arg(long, value_name = "PROGRAM;PROGRAM;…", value_parser = Programs::parse)]
    #[arg(conflicts_with_all = ["ops", "procs", "rounds", "end", "init_all", "nonblocking", "name", "log", "ranges"])]
    pub(crate) program: Option<Programs>,

    /// Elements per operation (some use a multiple or a part)
    #[arg(long, value_name = "ELEMENTS", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) count: u32,

    /// How often the list of operations is run; 0 goes on until killed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) rounds: u64,

    /// How many all-reduces `repeat` makes
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) iterations: u64,

    /// How long the last rank sleeps in `pause`
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10)]
    pub(crate) pause: u64,

    /// How the communicators end
    #[arg(long, value_enum, default_value_t = End::Finalize)]
    pub(crate) end: End,

    /// Create the communicators with blocking = 0 and wait with ncclCommGetAsyncError for every call to be done
    #[arg(long, conflicts_with = "init_all")]
    pub(crate) nonblocking: bool,

    /// Name of the communicator (NCCL 2.27 and later; not with --init-all)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Let each process claim to be on a host of its own (sets NCCL_HOSTID)
    #[arg(long)]
    pub(crate) hosts: bool,

    /// Let the processes play so many hosts with clocks of their own: `offset_ns,drift_ppb` for each, separated by
    /// `;` (sets NCCL_HOSTID and NCCL_OTF2_TEST_CLOCK)
    #[arg(long, value_name = "LIST", value_delimiter = ';', conflicts_with = "hosts", allow_hyphen_values = true)]
    pub(crate) host_clocks: Vec<String>,

    /// Delay what rank A sends to rank B; ranks are processes (--threads 1)
    ///
    /// Takes the network plugin of fake-gpu/nccl-plugins (sets NCCL_NET_PLUGIN and NCCL_NET), which must be on the
    /// library path. NCCL 2.26 and later.
    #[arg(long, value_name = "A,B,MICROSECONDS", value_parser = slow_pair)]
    pub(crate) slow_pair: Option<String>,

    /// Write each call to PREFIX.PROCESS.jsonl, one file per worker process
    #[arg(long, value_name = "PREFIX")]
    pub(crate) log: Option<PathBuf>,

    /// Name what the program does through NVTX: `setup`, `step N` for each round, and in it what the operations are for
    #[arg(long)]
    pub(crate) ranges: bool,

    /// Set the NCCL_* variables that make the number of proxy operations of every call known, where unset
    #[arg(long)]
    pub(crate) exact: bool,

    /// Use the GPU stand-in: preload it into the workers and set the NCCL_* variables it needs, where unset
    ///
    /// Without a path, libfakegpu.so from the directory of this program.
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "clap's form of an option whose value may be left out")]
    pub(crate) fake_gpu: Option<Option<PathBuf>>,

    /// The CUDA runtime to use (default: the preloaded one, else libcudart.so.13, .12 or .11)
    #[arg(long, value_name = "PATH")]
    pub(crate) cudart: Option<PathBuf>,

    /// Kill all processes after this time in seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) timeout: u64,

    /// Kill the workers (SIGKILL) this many seconds after all ranks have their communicator
    #[arg(long, value_name = "SECONDS")]
    pub(crate) kill_after: Option<f64>,

    /// With --kill-after: kill only the process that hosts this rank
    #[arg(long, value_name = "RANK", requires = "kill_after")]
    pub(crate) kill_rank: Option<u16>,

    /// Let this rank never call the last operation: the others wait for it until they are killed
    #[arg(long, value_name = "RANK")]
    pub(crate) skip_last: Option<u16>,

    /// Let this rank call ncclCommInitRank only when there is a file PATH; the others wait for it there
    #[arg(long, value_name = "RANK,PATH", value_parser = late_init, conflicts_with = "init_all")]
    pub(crate) late_init: Option<(usize, PathBuf)>,

    /// Set RANK and WORLD_SIZE of each process, as a launcher does
    #[arg(long)]
    pub(crate) launcher: bool,

    /// Internal: this is worker process N
    #[arg(long, hide = true, value_name = "N", requires = "rendezvous")]
    pub(crate) worker: Option<u16>,

    /// Internal: where the workers meet
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) rendezvous: Option<PathBuf>,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// ncclCommFinalize, then ncclCommDestroy
    Finalize,
    /// ncclCommDestroy only
    Destroy,
    /// ncclCommAbort
    Abort,
    /// Rank 0 starts one more operation that nobody joins, then all abort
    Stuck,
    /// Three communicators, destroyed in an order that is neither that of making them nor the same on all ranks
    Order,
    /// The process exits without destroying its communicators
    Exit,
}

fn slow_pair(text: &str) -> Result<String, String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.len() == 3 => Ok(text.to_owned()),
        _ => Err("is two ranks and a time in µs, such as 0,1,500".to_owned()),
    }
}

fn late_init(text: &str) -> Result<(usize, PathBuf), String> {
    let (rank, path) = text.split_once(',').ok_or("is a rank and a path, such as 1,/tmp/go")?;
    Ok((rank.parse().map_err(|_| "begins with a rank")?, path.into()))
}

impl Options {
    /// With a program for each rank, they say how many processes there are.
    pub(crate) fn with_processes(mut self) -> Options {
        if let Some(Programs(ranks)) = &self.program {
            self.procs = u16::try_from(ranks.len()).unwrap_or(u16::MAX) / self.threads;
        }
        self
    }

    pub(crate) fn world_ranks(&self) -> usize {
        usize::from(self.procs) * usize::from(self.threads)
    }

    pub(crate) fn ranks_of(&self, process: u16) -> std::ops::Range<usize> {
        let first = usize::from(process) * usize::from(self.threads);
        first..first + usize::from(self.threads)
    }
}

const HELP: &str = "\
Operations (--ops):
  pause          the last rank sleeps for --pause before what follows (not in `all`)
  one            a single ncclAllReduce, in place (not in `all`)
  allreduce      three: f32 sum, i32 max in place, f32 average of 5 elements
  broadcast      ncclBroadcast from the last rank
  reduce         ncclReduce to rank 0
  allgather, reducescatter
  sendrecv       a ring of ncclSend and ncclRecv
  alltoall       grouped ncclSend and ncclRecv with every rank, itself included
  group          two all-reduces and an all-gather in one group
  graph          an all-reduce and a ring captured into a CUDA graph, launched three times
  bcasts         one ncclBroadcast per root in one group
  calls28        ncclAlltoAll, ncclGather, ncclScatter (NCCL 2.28 and later)
  split          ncclCommSplit (odd and even ranks from 4 ranks on), an all-reduce in the new communicator
  several        three communicators at once: the first one, one of the same ranks, one of the odd or the even
                 ranks; their operations alternate, each on a stream of its own (not in `all`)
  threads        the same three and a fourth of all ranks, each used by a thread of its own, which also destroys it
                 (not in `all`)
  uneven         ncclCommSplit like split, and 500 all-reduces of the even ranks only, so that they record more
                 (not in `all`; 4 ranks or more)
  repeat         --iterations times the same all-reduce of i32; the log has its pace instead of its calls (not in `all`)

Operations that go wrong, for --timeout or --kill-after (not in `all`); programs (below) go wrong in all other ways:
  late           an all-reduce to which the last rank comes 0.2 s late (it ends)
  mismatch       an all-reduce where the last rank has 8 elements only
  init           the last rank does not join a second communicator, made by ncclCommInitRank

Words of a program (--program 'A.ar sync; A.ar kill'):
  A.ar A.ag A.rs A.bc A.rd   ncclAllReduce, ncclAllGather, ncclReduceScatter, ncclBroadcast, ncclReduce in A, f32 sum;
                 `A.ar/avg` `A.ar/max/i32` average, maximum, type; `A.bc/1` another root; `A.ar:8` 8 elements, not 1000;
                 `A.ar@2` on another stream than the first
  A.s2 A.r0      ncclSend to rank 2 of A, ncclRecv from its rank 0
  ( )            ncclGroupStart, ncclGroupEnd
  [ A.ar ]       captures a CUDA graph, which `launch` launches
  3{ A.ar sync } three times
  sync           waits for all streams
  A.init         ncclCommInitRank; `A.init/nb` does not block; without such a word the communicator is made at the
                 beginning, in the order of letters; all ranks that name it are in it
  A.split/B      ncclCommSplit: those that call it are in B
  A.destroy, A.abort   what is left at the end is destroyed
  wait:0.5       sleeps for so many seconds; `sleep` for ever
  exit, kill, stop     the process exits without destroying its communicators, kills itself, stops itself
  NAME=VALUE     a variable of the rank's process, from its start

Exit status:
  0 all results right   1 wrong results   2 error   3 ended by --kill-after   124 killed at --timeout
";
