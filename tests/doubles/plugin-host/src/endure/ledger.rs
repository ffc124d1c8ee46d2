//! The file where returned callbacks are counted: a shared mapping, so that it is as good after a kill as before.
//!
//! Little-endian words: word 0 is how the process is to end ([`End`]), and from word [`THREAD_WORDS`] on each thread has
//! [`THREAD_WORDS`] words: returned starts by kind, stops by kind, states by kind ([`KINDS`] words each).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kind::{self, Kind};

/// How many kinds of events there are.
pub const KINDS: usize = kind::KINDS.len();
/// Words of a thread.
pub const THREAD_WORDS: usize = 64;
/// Words of a file: the head, and 64 threads.
pub const LEDGER_WORDS: usize = THREAD_WORDS * 65;

/// How the process is to end; the number is what stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not yet.
    GoOn = 0,
    /// All communicators are finalized, then main returns.
    Orderly = 1,
    /// Threads stop where they are, then `exit` without finalize.
    Exit = 2,
    /// `_exit` while the threads work.
    ExitNow = 3,
    /// `abort` while the threads work.
    Abort = 4,
}

/// What a callback was.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Start = 0,
    Stop = 1,
    State = 2,
}

/// The file in memory.
pub(super) struct Ledger {
    words: NonNull<AtomicU64>,
}

// SAFETY: the words are atomics in a mapping that stays until the process ends.
unsafe impl Send for Ledger {}
// SAFETY: as above.
unsafe impl Sync for Ledger {}

impl Ledger {
    /// Makes the file.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let bytes = LEDGER_WORDS * size_of::<u64>();
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_len(bytes as u64)?;
        // SAFETY: a new mapping of a file at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(address.cast::<AtomicU64>())
            .ok_or_else(|| io::Error::other("mmap gave address zero"))?;
        Ok(Self { words })
    }

    /// A callback of this thread has returned.
    pub(super) fn returned(&self, thread: u8, call: Call, kind: Kind) {
        let place = kind.place().unwrap_or(0);
        let word = THREAD_WORDS * (1 + usize::from(thread)) + KINDS * call as usize + place;
        // One thread writes a word. Release: not before the callback's own stores.
        let word = self.word(word);
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// How the process is to end.
    pub(super) fn end(&self) -> End {
        match self.word(0).load(Ordering::Acquire) {
            0 => End::GoOn,
            1 => End::Orderly,
            2 => End::Exit,
            3 => End::ExitNow,
            _ => End::Abort,
        }
    }

    fn word(&self, word: usize) -> &AtomicU64 {
        assert!(word < LEDGER_WORDS, "the ledger has no word {word}");
        // SAFETY: the mapping has LEDGER_WORDS words and `word` is below that.
        let pointer = unsafe { self.words.add(word) };
        // SAFETY: the mapping stays to the end of the process and is aligned to a page; every bit pattern is a number.
        unsafe { pointer.as_ref() }
    }
}
