//! `plugin-host endure`: a rank that works until somebody ends it, and leaves behind which callbacks had returned.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::bench::mix::{Action, Program, Shape};
use crate::interface::{KINDS, Kind};
use crate::nccl;
use crate::plugin::{InitArguments, Outcome, Plugin, PluginArguments};

/// Call a plugin until somebody ends this process, and write down which callbacks have returned.
///
/// One rank of a job: each thread has a communicator of its own, with the same thread of the other ranks, and does
/// one all-reduce after the other.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    plugin: PluginArguments,

    /// The file to count in; made here.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,

    /// Number of threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,

    /// The rank of this process in each communicator.
    #[arg(long, default_value_t = 0)]
    rank: i32,

    /// The size of each communicator.
    #[arg(long, default_value_t = 1)]
    ranks: i32,

    /// How long a thread rests after an operation, in microseconds.
    #[arg(long, default_value_t = 100)]
    rest_us: u64,
}

/// How the process is to end; the number is what stands in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    GoOn = 0,
    Orderly = 1,
    /// Threads stop where they are, then `exit` without finalize.
    Exit = 2,
    ExitNow = 3,
    Abort = 4,
}

/// Works until the ledger says how to end.
#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "it is what is tried: a program that ends without finalize"
)]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let plugin = arguments.plugin.load()?;
    let ledger = Ledger::create(&arguments.ledger)?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..arguments.threads {
            let (plugin, ledger) = (&plugin, &ledger);
            let work = move || work(plugin, ledger, arguments, number);
            let builder = thread::Builder::new().name(format!("rank {number}"));
            threads.push(builder.spawn_scoped(scope, work)?);
        }
        loop {
            match ledger.end() {
                End::GoOn => thread::sleep(Duration::from_micros(200)),
                End::Orderly => return Ok(Outcome::Well),
                End::Exit => break,
                // SAFETY: never returns, touches no memory.
                End::ExitNow => unsafe { libc::_exit(0) },
                End::Abort => process::abort(),
            }
        }
        for thread in threads {
            let _panicked = thread.join();
        }
        process::exit(0)
    })
}

fn work(plugin: &Plugin, ledger: &Ledger, arguments: &Arguments, number: u8) {
    let context = plugin.begin(&InitArguments {
        comm_id: 0x7027_0000 + u64::from(number),
        ranks: arguments.ranks,
        rank: arguments.rank,
        ..InitArguments::default()
    });
    let shape =
        Shape { channels: 1, steps: 2, rank: arguments.rank, peer: (arguments.rank + 1) % arguments.ranks.max(1) };
    let mut program = Program::new(plugin.version, nccl::mask_now(), shape);
    let calls = program.calls.clone();
    let mut handles = vec![0; program.slots];
    for sequence in 0.. {
        program.set_sequence(plugin.version, sequence);
        for call in &calls {
            if ledger.end() == End::Exit {
                return;
            }
            program.call(plugin, context, &mut handles, *call);
            ledger.returned(number, call.action, call.kind);
        }
        if ledger.end() == End::Orderly {
            plugin.finalize(context);
            return;
        }
        thread::sleep(Duration::from_micros(arguments.rest_us));
    }
}

const THREAD_WORDS: usize = 64;
/// Words of the file: the head, and 64 threads.
const WORDS: usize = THREAD_WORDS * 65;

/// The file where returned callbacks are counted: a shared mapping, so that it is as good after a kill as before.
///
/// Little-endian words: word 0 is how the process is to end ([`End`]), and from word [`THREAD_WORDS`] on each thread
/// has [`THREAD_WORDS`] words: returned starts by kind, stops by kind, states by kind.
struct Ledger {
    words: NonNull<AtomicU64>,
}

// SAFETY: the words are atomics in a mapping that stays until the process ends.
unsafe impl Send for Ledger {}
// SAFETY: as above.
unsafe impl Sync for Ledger {}

impl Ledger {
    fn create(path: &Path) -> io::Result<Self> {
        let bytes = WORDS * size_of::<u64>();
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.set_len(bytes as u64)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file at an address of the kernel's choice.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(address.cast::<AtomicU64>());
        Ok(Self { words: words.ok_or_else(|| io::Error::other("mmap gave address zero"))? })
    }

    fn returned(&self, thread: u8, action: Action, kind: Kind) {
        let row = match action {
            Action::Start { .. } => 0,
            Action::Stop(_) => 1,
            Action::State(..) => 2,
        };
        let place = KINDS.len() * row + kind.place().unwrap_or(0);
        // One thread writes a word. Release: not before the callback's own stores.
        let word = self.word(THREAD_WORDS * (1 + usize::from(thread)) + place);
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn end(&self) -> End {
        let ends = [End::GoOn, End::Orderly, End::Exit, End::ExitNow];
        let word = usize::try_from(self.word(0).load(Ordering::Acquire)).unwrap_or(usize::MAX);
        ends.get(word).copied().unwrap_or(End::Abort)
    }

    fn word(&self, word: usize) -> &AtomicU64 {
        assert!(word < WORDS, "the ledger has no word {word}");
        // SAFETY: the mapping has WORDS words and `word` is below that.
        let pointer = unsafe { self.words.add(word) };
        // SAFETY: the mapping stays to the end of the process and is aligned to a page; every bit pattern is a number.
        unsafe { pointer.as_ref() }
    }
}
