//! The journal's files, and the disk space that the slots of a process share. A journal file is mapped shared into
//! memory; disk space is reserved before the memory is touched. A flight recording's old files are removed.
//!
//! All of this file's `unsafe` rests on one fact: [`JournalFile`] owns the mapping from `mmap` to `munmap`, and
//! everything that points into the mapping ([`Segment`]) keeps the `JournalFile` alive.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::clock::TickSource;
use crate::format::{SEGMENT_BYTES, SEGMENT_WORDS, SEGMENTS_PER_FILE, header};
use crate::host::Lock;
use crate::{host, writing};
use nccl_events::Kind;
use nccl_events::ids::{EventId, ProcessTag};

const PAGE_WORDS: usize = 4096 / 8;

pub(crate) type SegmentWords = [AtomicU64; SEGMENT_WORDS];

/// States of a segment's preparation.
mod preparation {
    pub(crate) const NONE: u8 = 0;
    pub(crate) const CLAIMED: u8 = 1;
    pub(crate) const DONE: u8 = 2;
}

/// A journal file and its mapping. Shared by the thread that records into it and the maintenance thread.
///
/// It keeps no descriptor: a program that closes numbers that are not its own gets them for its own files.
#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Zero-based index of the file in its slot.
    number: u32,
    /// Number of segments, at most [`SEGMENTS_PER_FILE`].
    segments: usize,
    base: NonNull<SegmentWords>,
    writing: Lock<()>,
    prepared: [AtomicU8; SEGMENTS_PER_FILE],
    /// Index of the segment in use.
    active: AtomicUsize,
    /// Segments below this one are no longer resident.
    released: AtomicUsize,
}

// SAFETY: `base` points to a mapping that this value owns; the mapping is accessed through atomics only.
unsafe impl Send for JournalFile {}
// SAFETY: all access to the mapped words goes through atomics; the other fields are `Sync`.
unsafe impl Sync for JournalFile {}

/// What is written where the file system cannot reserve. Not on the stack: threads of the program may have little.
static ZEROS: [u8; 16 << 10] = [0; 16 << 10];

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|is| (is.dev(), is.ino()))
}

impl JournalFile {
    /// Creates the file, which must not exist, and maps it. No space is reserved yet.
    pub(crate) fn create(path: &Path, number: u32, segments: usize) -> io::Result<Arc<Self>> {
        let segments = segments.clamp(1, SEGMENTS_PER_FILE);
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = writing::guarded(|| options.open(path))?;
        let identity = identity(&file)?;
        // SAFETY: maps our own file at an address of the kernel's choice, so no existing memory is affected.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                segments * SEGMENT_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base =
            NonNull::new(address.cast::<SegmentWords>()).ok_or_else(|| io::Error::other("mmap gave address zero"))?;
        Ok(Arc::new(Self {
            path: path.to_owned(),
            identity,
            number,
            segments,
            base,
            writing: Lock::new(()),
            prepared: [const { AtomicU8::new(preparation::NONE) }; SEGMENTS_PER_FILE],
            active: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
        }))
    }

    /// Zero-based index of the file in its slot.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Whether a segment can be written to immediately.
    pub(crate) fn is_prepared(&self, index: usize) -> bool {
        self.prepared.get(index).is_some_and(|state| state.load(Ordering::Acquire) == preparation::DONE)
    }

    /// Whether a thread is preparing a segment or has prepared it.
    pub(crate) fn is_claimed(&self, index: usize) -> bool {
        self.prepared.get(index).is_some_and(|state| state.load(Ordering::Acquire) != preparation::NONE)
    }

    /// Reserves the segment's space on disk and makes its pages resident. The recording thread and the maintenance
    /// thread may both do so at once, because every step can be repeated. Returns whether this call was the first to
    /// claim the segment (for the account of bytes).
    pub(crate) fn prepare(&self, index: usize) -> io::Result<bool> {
        let Some(state) = self.prepared.get(index) else {
            return Err(io::Error::other("no such segment"));
        };
        let first = state
            .compare_exchange(preparation::NONE, preparation::CLAIMED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        writing::guarded(|| self.reserve(index)).and_then(|()| self.populate(index)).inspect_err(|_| {
            if first {
                state.store(preparation::NONE, Ordering::Release);
            }
        })?;
        state.store(preparation::DONE, Ordering::Release);
        Ok(first)
    }

    /// Opens the file for reserving space; an error if another one has its place now.
    fn open(&self) -> io::Result<File> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options().write(true).custom_flags(flags).open(&self.path)?;
        let is_same = identity(&file)? == self.identity;
        is_same.then_some(file).ok_or_else(|| io::Error::other("another file has taken the place of the journal's"))
    }

    /// Reserves disk space before it is touched: on a full disk, touching a hole in the file raises SIGBUS.
    fn reserve(&self, index: usize) -> io::Result<()> {
        let file = self.open()?;
        let offset = index * SEGMENT_BYTES;
        let (start, length) = (
            libc::off_t::try_from(offset).map_err(io::Error::other)?,
            libc::off_t::try_from(SEGMENT_BYTES).map_err(io::Error::other)?,
        );
        loop {
            // SAFETY: a plain system call on a descriptor that `file` keeps open.
            if unsafe { libc::fallocate(file.as_raw_fd(), 0, start, length) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // File systems without fallocate (NFSv3, older Lustre): writing zeros reserves space as well.
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => return self.reserve_by_writing(&file, offset),
                _ => return Err(error),
            }
        }
    }

    fn reserve_by_writing(&self, file: &File, offset: usize) -> io::Result<()> {
        // Two preparations at once would overwrite each other's records. Waiting here costs the recording thread no
        // more than writing the zeros itself, and counts as a stall as well.
        let _one_at_a_time = self.writing.lock();
        let end = (offset + SEGMENT_BYTES) as u64;
        let mut at = file.metadata()?.len().max(offset as u64);
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(ZEROS.len()).min(ZEROS.len());
            file.write_all_at(ZEROS.get(..length).unwrap_or(&ZEROS), at)?;
            at += length as u64;
        }
        Ok(())
    }

    /// Makes the pages of a segment resident. Fails where touching them would raise SIGBUS: not every file system
    /// reserves what it says.
    fn populate(&self, index: usize) -> io::Result<()> {
        let words = self.words(index);
        // SAFETY: the range is one segment of this mapping, and its space was just reserved.
        let done = unsafe { libc::madvise(words.as_ptr().cast_mut().cast(), SEGMENT_BYTES, libc::MADV_POPULATE_WRITE) };
        if done == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            // Kernels before 5.14: touch each page with an atomic OR of zero, which changes nothing.
            error if error.raw_os_error() == Some(libc::EINVAL) => {
                for word in words.iter().step_by(PAGE_WORDS) {
                    word.fetch_or(0, Ordering::Relaxed);
                }
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Committed bytes of the segment in use; 0 while it is not prepared, since touching it would raise SIGBUS.
    pub(crate) fn committed_bytes(&self) -> u64 {
        let active = self.active();
        if !self.is_prepared(active) {
            return 0;
        }
        let word = self.words(active).get(header::COMMITTED);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Increments a word of the first segment's header, which must be prepared; callable from any thread.
    pub(crate) fn count_in_header(&self, word: usize) {
        if let Some(word) = self.words(0).get(word) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of used segments that are still resident.
    pub(crate) fn unreleased(&self) -> usize {
        self.active().saturating_sub(self.released.load(Ordering::Relaxed))
    }

    /// Releases the pages of segments before the active one; their data stays in the file.
    pub(crate) fn release_used(&self) {
        let active = self.active();
        let from = self.released.fetch_max(active, Ordering::Relaxed);
        for index in from..active {
            // SAFETY: MADV_DONTNEED on a shared file mapping drops only page table entries; this mapping has the range.
            unsafe { libc::madvise(self.words(index).as_ptr().cast_mut().cast(), SEGMENT_BYTES, libc::MADV_DONTNEED) };
        }
    }

    fn words(&self, index: usize) -> &SegmentWords {
        let index = index.min(self.segments - 1);
        // SAFETY: the mapping has `segments` segments, at least one, and `index` is less than `segments`.
        let pointer = unsafe { self.base.add(index) };
        // SAFETY: the mapping lives as long as `self`, is page-aligned, and contains only atomics, for which every bit
        // pattern is valid; callers prepare the segment before they touch the words.
        unsafe { pointer.as_ref() }
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        // SAFETY: `create` made the mapping with this size; users hold an Arc of this value, so no reference is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.segments * SEGMENT_BYTES) };
    }
}

/// A prepared segment, owned by the only thread that writes it.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Arc<JournalFile>,
    words: NonNull<SegmentWords>,
    index: usize,
}

// SAFETY: `words` points into the mapping that `file` keeps alive; access is through atomics.
unsafe impl Send for Segment {}

impl Segment {
    /// Puts a prepared segment into use.
    pub(crate) fn take(file: Arc<JournalFile>, index: usize) -> Self {
        file.active.store(index, Ordering::Relaxed);
        let words = NonNull::from(file.words(index));
        Self { file, words, index }
    }

    /// Prefetches the cache line of a word that will be written soon. A fresh page costs a TLB miss and a line from
    /// memory, which about one callback in forty would otherwise wait for.
    #[inline]
    pub(crate) fn fetch_ahead(&self, word: usize) {
        let address = self.words.as_ptr().cast::<AtomicU64>().wrapping_add(word);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads no data and never faults, whatever the address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(address.cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as for x86-64.
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{address}]", address = in(reg) address, options(nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = address;
    }

    pub(crate) fn file(&self) -> &Arc<JournalFile> {
        &self.file
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }
}

impl Deref for Segment {
    type Target = SegmentWords;

    #[inline]
    fn deref(&self) -> &SegmentWords {
        // SAFETY: `words` came from `JournalFile::words`, and `self.file` keeps that mapping alive.
        unsafe { self.words.as_ref() }
    }
}

/// How many files must fit within a limit on address space (`ulimit -v`): a thread maps up to three files, and the
/// program itself may need nearly all of the limit. RLIMIT_DATA does not count shared mappings.
const FILES_IN_ADDRESS_SPACE: u64 = 256;

/// Identity of the recording process, and the limit on its journal.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The journal's directory, which must exist.
    pub directory: PathBuf,
    /// The process tag in every id.
    pub tag: ProcessTag,
    /// Id of this process. Stored, because `getpid` is a system call and headers are written in callbacks.
    pub process_id: u32,
    /// The tick source of the process.
    pub tick_source: TickSource,
    /// Start of the session, CLOCK_REALTIME ns.
    pub session_start_realtime_ns: u64,
    /// Maximum number of bytes to reserve on disk.
    pub limit_bytes: u64,
}

/// How much a flight recording retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Maximum number of bytes on disk. One or two segments of each recording thread are never removed.
    pub bytes: u64,
    /// How long a used segment is kept; no time limit if `None`.
    pub time: Option<Duration>,
}

/// Why recording stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The size limit was reached.
    Limit,
    /// The system refused space or a file.
    System(String),
    /// The system refused memory.
    Memory,
    /// All slot numbers are taken: more simultaneous threads than slots.
    Slots,
}

/// The reserved disk space, and whether more may be reserved.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) options: WriterOptions,
    /// `None` if all segments are kept.
    pub(crate) retention: Option<Retention>,
    /// Maximum address space for one file; `None` if it is unlimited.
    most_mapped_bytes: Option<u64>,
    reserved_bytes: AtomicU64,
    full: AtomicBool,
    has_losses: AtomicBool,
    stop: Lock<Option<Stop>>,
}

impl Space {
    pub(crate) fn new(options: WriterOptions, retention: Option<Retention>) -> Self {
        Self {
            options,
            retention,
            most_mapped_bytes: host::limit_of(libc::RLIMIT_AS).map(|bytes| bytes / FILES_IN_ADDRESS_SPACE),
            reserved_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
            has_losses: AtomicBool::new(false),
            stop: Lock::new(None),
        }
    }

    pub(crate) fn create_file(&self, slot: &Slot) -> Result<Arc<JournalFile>, Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        let number = slot.next_file.fetch_add(1, Ordering::Relaxed);
        let path = self.path_of(slot, number);
        // A flight recording removes whole files, so its files have one segment.
        let segments = match self.retention {
            Some(_) => 1,
            None => segments_in([host::file_size_limit(), self.most_mapped_bytes].into_iter().flatten().min()),
        };
        JournalFile::create(&path, number, segments)
            .map_err(|error| self.stopped(Stop::System(format!("{}: {error}", path.display()))))
    }

    /// The path of a slot's file.
    pub(crate) fn path_of(&self, slot: &Slot, number: u32) -> PathBuf {
        let name = format!("{}.{number}", slot.number);
        self.options.directory.join(name)
    }

    pub(crate) fn prepare(&self, file: &JournalFile, index: usize) -> Result<(), Stop> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Stop::Limit);
        }
        // Count before preparing: threads that prepare at the same time must not all find room for the last segment.
        let counted = !file.is_claimed(index);
        if counted && !self.count_in() {
            return Err(self.stopped(Stop::Limit));
        }
        let prepared = file.prepare(index);
        match (&prepared, counted) {
            (Ok(true), true) | (Ok(false) | Err(_), false) => {}
            // Another thread claimed and counted the segment in the meantime, or there is no such segment.
            (Ok(false) | Err(_), true) => self.count_out(),
            // The claim of another thread was undone in the meantime.
            (Ok(true), false) => {
                self.reserved_bytes.fetch_add(SEGMENT_BYTES as u64, Ordering::Relaxed);
            }
        }
        prepared.map(|_first| ()).map_err(|error| self.stopped(Stop::System(describe(&self.options.directory, &error))))
    }

    /// Counts a segment if the limit leaves room for it.
    fn count_in(&self) -> bool {
        let more = |reserved: u64| {
            let reserved = reserved.checked_add(SEGMENT_BYTES as u64)?;
            (reserved <= self.options.limit_bytes).then_some(reserved)
        };
        self.reserved_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn count_out(&self) {
        self.reserved_bytes.fetch_sub(SEGMENT_BYTES as u64, Ordering::Relaxed);
    }

    /// Stops the recording: every thread fills only its current segment.
    pub(super) fn stopped(&self, stop: Stop) -> Stop {
        self.full.store(true, Ordering::Relaxed);
        self.stop.lock().get_or_insert_with(|| stop.clone());
        stop
    }

    /// Why recording stopped, if it did. The first reason is kept.
    pub(crate) fn stop_reason(&self) -> Option<Stop> {
        self.stop.lock().clone()
    }

    /// Notes that something is not recorded; the journal counts how much.
    pub(crate) fn note_loss(&self) {
        self.has_losses.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_losses(&self) -> bool {
        self.has_losses.load(Ordering::Relaxed)
    }

    /// Notes that a thread has no slot: its events are counted, and the other threads continue to record.
    pub(crate) fn no_slot(&self) -> Stop {
        self.stop.lock().get_or_insert(Stop::Slots);
        Stop::Slots
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Removes a file of one prepared segment. One that cannot be removed stays in the account and in the archive.
    pub(crate) fn remove_file(&self, slot: &Slot, number: u32) {
        if std::fs::remove_file(self.path_of(slot, number)).is_ok() {
            self.count_out();
        }
    }
}

/// Number of segments in a file of at most `limit` bytes.
fn segments_in(limit: Option<u64>) -> usize {
    let segments = limit.map_or(SEGMENTS_PER_FILE as u64, |bytes| bytes / SEGMENT_BYTES as u64);
    usize::try_from(segments).unwrap_or(SEGMENTS_PER_FILE).clamp(1, SEGMENTS_PER_FILE)
}

fn describe(directory: &Path, error: &io::Error) -> String {
    format!("{}: {}", directory.display(), host::explain_write_error(error))
}

/// How many used files a recording thread may leave for unmapping between two rounds of the maintenance thread.
const LEFT_FILES: usize = 16;

/// The state of a slot that the maintenance thread shares with the recording thread.
pub(crate) struct Slot {
    pub(crate) number: u16,
    pub(crate) next_file: AtomicU32,
    pub(crate) current: Lock<Option<Arc<JournalFile>>>,
    pub(crate) spare: Lock<Option<Arc<JournalFile>>>,
    /// The maintenance thread's reference to the current file: it unmaps a used-up file, not the recording thread.
    pub(crate) kept: Lock<Option<Arc<JournalFile>>>,
    /// In a flight recording: files that the recording thread has finished with, for the maintenance thread to unmap.
    pub(crate) left: Lock<Vec<Arc<JournalFile>>>,
    /// In a flight recording: used files that still exist, oldest first.
    pub(crate) used: Lock<UsedFiles>,
    /// The time of the maintenance thread's last round, and the bytes that were recorded until then.
    progress: Lock<Option<(Instant, u64)>>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Slot {
    pub(crate) fn new(number: u16) -> Self {
        Self {
            number,
            next_file: AtomicU32::new(0),
            current: Lock::new(None),
            spare: Lock::new(None),
            kept: Lock::new(None),
            left: Lock::new(Vec::with_capacity(LEFT_FILES)),
            used: Lock::new(UsedFiles::default()),
            progress: Lock::new(None),
        }
    }

    /// How long a segment lasts at the pace since the last call; `recorded` bytes have been recorded until `now`.
    /// `None` if none since then.
    pub(crate) fn segment_lasts(&self, now: Instant, recorded: u64) -> Option<Duration> {
        let (since, before) = self.progress.lock().replace((now, recorded))?;
        let more = recorded.checked_sub(before).filter(|more| *more > 0)?;
        Some((now - since).mul_f64(SEGMENT_BYTES as f64 / more as f64))
    }
}

#[derive(Debug, Default)]
pub(crate) struct UsedFiles {
    /// The number of the first file that is not in `files` yet.
    next: u32,
    pub(crate) files: VecDeque<UsedFile>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedFile {
    pub(crate) number: u32,
    /// When the maintenance thread noticed that the recording thread had left the file: all its records are older.
    pub(crate) since: Instant,
}

impl UsedFiles {
    /// Adds the files before the current one. Of these, one may be gone: a spare file that came too late.
    pub(crate) fn extend_to(&mut self, current: u32, now: Instant) {
        for number in self.next..current {
            self.files.push_back(UsedFile { number, since: now });
        }
        self.next = self.next.max(current);
    }
}

// Removing what exceeds the retention of a flight recording, oldest first across all slots.
//
// This runs on the maintenance thread only. A segment in use is never removed, nor is any segment of the maintenance
// thread's own slot: it contains the clock pairs and the communicators, without which the rest has no meaning, and
// grows by about five megabytes a day.

/// Fill level at which the maintenance thread prepares the next segment: at full speed the rest lasts less than 1 ms.
pub(crate) const PREPARE_FROM_BYTES: u64 = SEGMENT_BYTES as u64 / 8;

/// Whether the maintenance thread is about to prepare a file for the slot.
fn wants_segment(slot: &Slot) -> bool {
    let current = slot.current.lock().clone();
    slot.spare.lock().is_none() && current.is_some_and(|file| file.committed_bytes() >= PREPARE_FROM_BYTES)
}

/// Unmaps the files that threads have finished with, and removes files beyond the retention.
pub(crate) fn remove_old(space: &Space, slots: &[Arc<Slot>], retention: Retention) {
    let now = Instant::now();
    for slot in slots {
        slot.left.lock().clear();
        let current = slot.current.lock().as_ref().map(|file| file.number());
        if let Some(current) = current
            && slot.number != 0
        {
            slot.used.lock().extend_to(current, now);
        }
    }
    // Leave room for the segments that are prepared next.
    let segment = SEGMENT_BYTES as u64;
    let next = slots.iter().filter(|slot| wants_segment(slot)).count() as u64;
    let most = retention.bytes.saturating_sub(segment * next);
    while let Some((slot, file)) = oldest(slots) {
        let is_old = retention.time.is_some_and(|time| now - file.since > time);
        if !is_old && space.reserved_bytes() <= most {
            break;
        }
        space.remove_file(slot, file.number);
        slot.used.lock().files.pop_front();
    }
}

fn oldest(slots: &[Arc<Slot>]) -> Option<(&Slot, UsedFile)> {
    let firsts = slots.iter().filter_map(|slot| Some((&**slot, slot.used.lock().files.front().copied()?)));
    firsts.min_by_key(|(_, file)| file.since)
}

/// Something that could not be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostRecord {
    /// An event's start.
    Start(Kind),
    /// The stop of the event with this id.
    Stop(u64),
    /// A change of state of the event with this id.
    State(u64),
    /// The start or the end of a communicator.
    Communicator,
}

impl LostRecord {
    /// Some callback.
    pub const UNKNOWN: Self = Self::Stop(0);

    /// Index among the loss counters of a process.
    pub(crate) fn index(self, tag: ProcessTag) -> usize {
        const STARTS: usize = header::LOST_STARTS;
        match self {
            Self::Start(kind) => kind as usize,
            Self::Stop(event) => header::LOST_STOPS - STARTS + kind_of(event, tag) as usize,
            Self::State(event) => header::LOST_STATES - STARTS + kind_of(event, tag) as usize,
            Self::Communicator => header::LOST_COMMUNICATORS - STARTS,
        }
    }
}

/// The kind of an event. In a stale handle, or the id of another process, the kind's bits may mean anything: such
/// events count as [`Kind::Unknown`].
fn kind_of(event: u64, tag: ProcessTag) -> Kind {
    let id = EventId::from_raw(event);
    if id.tag() == tag.get() { id.kind() } else { Kind::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_place_of_the_journals_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.0");
        let file = JournalFile::create(&path, 0, 64).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        let refused = file.prepare(0).unwrap_err();
        assert!(refused.to_string().contains("another file has taken the place"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"another");
    }

    #[test]
    fn space_is_reserved_without_fallocate_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.0");
        let file = JournalFile::create(&path, 0, 64).unwrap();
        file.prepare(0).unwrap();
        let segment = Segment::take(Arc::clone(&file), 0);
        segment[SEGMENT_WORDS - 1].store(4711, Ordering::Relaxed);
        for offset in [SEGMENT_BYTES, 0] {
            file.reserve_by_writing(&file.open().unwrap(), offset).unwrap();
        }
        let length = file.open().unwrap().metadata().unwrap().len();
        assert_eq!(length, 2 * SEGMENT_BYTES as u64);
        assert_eq!(segment[SEGMENT_WORDS - 1].load(Ordering::Relaxed), 4711, "what is recorded stays");
    }

    #[test]
    fn what_is_not_reserved_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let file = JournalFile::create(&directory.path().join("0.0"), 0, 64).unwrap();
        // Reading the mapping beyond the file's end would kill the process with SIGBUS.
        assert_eq!(file.committed_bytes(), 0);
        file.prepare(0).unwrap();
        let segment = Segment::take(Arc::clone(&file), 0);
        segment[header::COMMITTED].store(4711, Ordering::Relaxed);
        assert_eq!(file.committed_bytes(), 4711);
    }
}
