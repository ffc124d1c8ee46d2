//! The chained profiler plugins (`NCCL_OTF2_CHAIN`), without C: where their libraries are, what each asks for, which
//! handle each has for an event, and what it did not get. `abi/chained.rs` calls the plugins in the callbacks in which
//! NCCL calls this plugin, without locking or allocating.

use std::ffi::{CStr, CString, c_void};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::thread;
use std::time::Duration;

use crate::host::process;
use in_process::Object;
use journal::clock::ticks;
use journal::part::ChainReport;
use nccl_events::{Kind, Table, completed};
use parking_lot::Mutex;
use settings::MOST_CHAINED;

pub(crate) const MOST_PLUGINS: usize = MOST_CHAINED;

// The handles of the chained plugins are in a lock-free table of fixed size. The hash of an event's or communicator's
// id selects eight entries, and the id lies in one of these. A new id takes a free entry among them, else the entry of
// the oldest event that has stopped, else the entry of the oldest event.

/// The plugins' handles by plugin number; 0 for NULL.
pub(crate) type Handles = [u64; MOST_PLUGINS];

pub(crate) const NONE: Handles = [0; MOST_PLUGINS];
/// Stored instead of a context: the plugin was not called, or failed, for this communicator.
pub(crate) const ABSENT: u64 = u64::MAX;

const WAYS: usize = 8;
const BUSY: u64 = u64::MAX;
/// Set while an event has not stopped.
const OPEN: u64 = 1 << 63;

#[repr(align(64))]
struct Entry {
    /// The id; 0 if the entry is free.
    id: AtomicU64,
    /// The ticks when the id was put here, with [`OPEN`].
    since: AtomicU64,
    owner: AtomicU64,
    handles: [AtomicU64; MOST_PLUGINS],
}

impl Entry {
    const fn free() -> Self {
        let handles = [const { AtomicU64::new(0) }; MOST_PLUGINS];
        Self { id: AtomicU64::new(0), since: AtomicU64::new(0), owner: AtomicU64::new(0), handles }
    }
}

/// The handles of the chained plugins for each event or communicator of this plugin.
pub(crate) struct HandleTable {
    buckets: Box<[[Entry; WAYS]]>,
    shift: u32,
}

impl HandleTable {
    pub(crate) fn with_bits(bits: u32) -> Self {
        let bits = bits - WAYS.trailing_zeros();
        let buckets = (0..1_usize << bits).map(|_| [const { Entry::free() }; WAYS]);
        Self { buckets: buckets.collect(), shift: u64::BITS - bits }
    }

    fn bucket(&self, id: u64) -> &[Entry] {
        // Fibonacci hashing spreads consecutive ids far apart and evenly.
        let hash = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        let bucket = usize::try_from(hash).ok().and_then(|hash| self.buckets.get(hash));
        bucket.map_or(&[], |bucket| bucket)
    }

    fn entry(&self, id: u64) -> Option<&Entry> {
        if id == 0 || id == BUSY {
            return None;
        }
        self.bucket(id).iter().find(|entry| entry.id.load(Ordering::Acquire) == id)
    }

    /// The owner and the handles stored with an id, if it still has its entry.
    pub(crate) fn get(&self, id: u64) -> Option<(u64, Handles)> {
        let entry = self.entry(id)?;
        let owner = entry.owner.load(Ordering::Relaxed);
        let mut handles = NONE;
        for (handle, held) in handles.iter_mut().zip(&entry.handles) {
            *handle = held.load(Ordering::Relaxed);
        }
        // Another id may have taken the entry meanwhile; then the entry's id changed before its handles.
        fence(Ordering::Acquire);
        (entry.id.load(Ordering::Relaxed) == id).then_some((owner, handles))
    }

    /// Gives an id an entry. Returns `false` if other threads were faster at all eight attempts.
    pub(crate) fn put(&self, id: u64, owner: u64, handles: &Handles) -> bool {
        (0..WAYS).any(|_| {
            let ranked = self.bucket(id).iter().map(|entry| {
                let held = entry.id.load(Ordering::Acquire);
                let rank = match held {
                    0 => 0,
                    BUSY => u64::MAX,
                    _ => entry.since.load(Ordering::Relaxed),
                };
                (rank, held, entry)
            });
            let oldest = ranked.min_by_key(|(rank, ..)| *rank);
            oldest.is_some_and(|(_, held, entry)| take(entry, held, id, owner, handles))
        })
    }

    /// The event has stopped: its entry is reused before those of open events. It can still be a parent.
    pub(crate) fn close(&self, id: u64) {
        let Some(entry) = self.entry(id) else { return };
        let since = entry.since.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        // An event that took the entry meanwhile has another time, and is open.
        if entry.id.load(Ordering::Relaxed) == id {
            let _taken = entry.since.compare_exchange(since, since & !OPEN, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(crate) fn remove(&self, id: u64) -> Option<Handles> {
        let (_, handles) = self.get(id)?;
        let entry = self.entry(id)?;
        let removed = entry.id.compare_exchange(id, 0, Ordering::AcqRel, Ordering::Relaxed);
        removed.is_ok().then_some(handles)
    }
}

/// Replaces the id found in an entry, unless another thread was faster.
fn take(entry: &Entry, held: u64, id: u64, owner: u64, handles: &Handles) -> bool {
    let is_mine = held != BUSY && entry.id.compare_exchange(held, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if is_mine {
        // A thread that reads a new handle sees that the id has changed.
        fence(Ordering::Release);
        entry.since.store(ticks() | OPEN, Ordering::Relaxed);
        entry.owner.store(owner, Ordering::Relaxed);
        for (held, handle) in entry.handles.iter().zip(handles) {
            held.store(*handle, Ordering::Relaxed);
        }
        entry.id.store(id, Ordering::Release);
    }
    is_mine
}

// Each chained plugin has its own mask, which it may change at any time, as it may change NCCL's; this plugin's mask is
// not among them.

/// How often the masks are checked: the longest time until NCCL learns of a plugin's new request.
const INTERVAL: Duration = Duration::from_millis(50);

static MASKS: [AtomicI32; MOST_PLUGINS] = [const { AtomicI32::new(0) }; MOST_PLUGINS];
/// The kinds that a plugin can get: all, or the kinds of the older table through which it is called; none until its
/// `init` has succeeded once.
static MOST: [AtomicU32; MOST_PLUGINS] = [const { AtomicU32::new(0) }; MOST_PLUGINS];

/// The mask of a plugin, passed to its `init` as NCCL passes its own.
pub(crate) fn mask_of(plugin: usize) -> Option<&'static AtomicI32> {
    MASKS.get(plugin)
}

/// A plugin has a communicator. The table through which it is called has these kinds.
pub(crate) fn begin_use(plugin: usize, kinds: u32) {
    if let Some(most) = MOST.get(plugin) {
        most.store(kinds, Ordering::Relaxed);
    }
}

fn most(plugin: usize) -> u32 {
    MOST.get(plugin).map_or(0, |most| most.load(Ordering::Relaxed))
}

/// Whether a plugin has had a communicator.
pub(crate) fn is_in_use(plugin: usize) -> bool {
    most(plugin) != 0
}

fn requested_events(plugin: usize) -> u32 {
    let asked = MASKS.get(plugin).map_or(0, |mask| mask.load(Ordering::Relaxed)).cast_unsigned();
    asked & most(plugin)
}

/// The plugins that get events of a type: bit n is plugin n.
pub(crate) fn plugins_that_request(event_type: u64) -> u32 {
    let gets = |plugin| u64::from(started_for(requested_events(plugin)) & most(plugin)) & event_type != 0;
    (0..MOST_PLUGINS).map(|plugin| u32::from(gets(plugin)) << plugin).sum()
}

pub(crate) fn is_requested(kind: Kind) -> bool {
    plugins_that_request(kind.mask().into()) != 0
}

/// Makes NCCL call for what the plugins ask for now.
pub(crate) fn request_events() {
    process::add_chained_events((0..MOST_PLUGINS).map(requested_events).fold(0, |all, one| all | one));
}

/// Keeps NCCL calling for what the plugins ask for, as long as they are called. A plugin may write its mask at any time
/// without notice: NCCL does not report it to this plugin, and makes no callback if nobody asks for anything. Also used
/// if nothing is recorded, when the maintenance thread does not run.
pub(crate) fn follow_masks(are_called: fn() -> bool) {
    // If no thread can be started, the masks are followed at each `init`.
    let _refused = process::spawn("nccl-otf2-chain", 64 << 10, move || {
        while are_called() {
            request_events();
            thread::sleep(INTERVAL);
        }
    });
}

/// The kinds that NCCL starts for a mask: a kind implies its parents (NCCL 2.30.7 and 2.31.2 `profiler.cc`).
const fn started_for(mask: u32) -> u32 {
    const TASKS: u32 = Kind::Coll.mask() | Kind::P2p.mask();
    const CALLS: u32 = Kind::CollApi.mask() | Kind::P2pApi.mask() | Kind::KernelLaunch.mask();
    const NET: u32 = Kind::ProxyStep.mask() | Kind::NetPlugin.mask();
    // From children to parents: a rule may add a child kind of a later rule.
    const RULES: [(u32, u32); 7] = [
        (Kind::KernelPhase.mask(), Kind::KernelCh.mask()),
        (NET, Kind::ProxyOp.mask() | Kind::ProxyStep.mask()),
        (Kind::ProxyOp.mask() | Kind::KernelCh.mask(), TASKS),
        (Kind::Coll.mask(), Kind::Group.mask() | Kind::CollApi.mask()),
        (Kind::P2p.mask(), Kind::Group.mask() | Kind::P2pApi.mask()),
        (Kind::Group.mask() | CALLS, Kind::GroupApi.mask()),
        (Kind::CeSync.mask() | Kind::CeBatch.mask(), Kind::CeColl.mask()),
    ];
    completed(mask, &RULES)
}

/// A loaded library. It is never unloaded, because its threads may run at any time.
pub(crate) struct Library(*mut c_void);

impl Library {
    pub(crate) fn load(name: &str) -> Result<Self, String> {
        let mut errors: Vec<String> = Vec::new();
        for file in files(name, process::is_rccl()) {
            match open(&file) {
                Ok(library) => return Ok(library),
                Err(error) => errors.push(error),
            }
        }
        Err(errors.join("; "))
    }

    pub(crate) fn symbol(&self, name: &CStr) -> *const c_void {
        // SAFETY: dlopen returned the handle, which was not closed; the name is a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

pub(crate) fn is_own(address: *const c_void) -> bool {
    static HERE: u8 = 0;
    let base = |address: usize| Object::from_address(address).map(|object| object.base);
    base(address.addr()).is_some_and(|found| Some(found) == base((&raw const HERE).addr()))
}

fn files(name: &str, by_rccl: bool) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    let mut files = vec![format!("libnccl-profiler-{name}.so")];
    if by_rccl {
        files.push(format!("librccl-profiler-{name}.so"));
    }
    files.push(name.to_owned());
    files
}

fn open(file: &str) -> Result<Library, String> {
    let path = CString::new(file).map_err(|_| format!("{file:?} contains a NUL"))?;
    // SAFETY: the user named this library as a profiler plugin; its constructors run as if NCCL had loaded it.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(Library(handle));
    }
    // SAFETY: returns NULL or the message of the call above, which stays valid until the next call on this thread.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return Err(format!("{file} cannot be loaded"));
    }
    // SAFETY: not NULL, so a C string.
    let error = unsafe { CStr::from_ptr(error) };
    Err(error.to_string_lossy().into_owned())
}

/// What the chained plugins did not get, and what failed.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    /// Starts for communicators that a plugin does not know, because it failed for them or they have ended.
    StartsNotHandedOver,
    /// Stops and states for such communicators, and for events evicted from the table of handles.
    CallsNotHandedOver,
    Errors,
}

const NAMES: [&str; 3] = ["STARTS_NOT_HANDED_OVER", "CALLS_NOT_HANDED_OVER", "ERRORS"];
static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];
static PLUGINS: Mutex<Lists> = Mutex::new(Lists { plugins: Vec::new(), left_out: Vec::new() });

struct Lists {
    plugins: Vec<String>,
    left_out: Vec<String>,
}

#[cold]
pub(crate) fn count(count: Count) {
    if let Some(counter) = COUNTS.get(count as usize) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn took(name: &str, table: Table) {
    PLUGINS.lock().plugins.push(format!("{name} ({table})"));
}

/// A plugin is not used at all, or not for a communicator. Warns the user once.
pub(crate) fn leave_out(name: &str, reason: &str) {
    let line = format!("{name}: {reason}");
    let mut lists = PLUGINS.lock();
    if lists.left_out.contains(&line) {
        return;
    }
    lists.left_out.push(line.clone());
    drop(lists);
    process::warn(&format!("NCCL_OTF2_CHAIN={line}; it is left out"));
}

pub(crate) fn report() -> ChainReport {
    report_with(|count| count.load(Ordering::Relaxed))
}

/// The counts since the last call; a session writes them at its end.
pub(crate) fn take_report() -> ChainReport {
    report_with(|count| count.swap(0, Ordering::Relaxed))
}

fn report_with(read: fn(&AtomicU64) -> u64) -> ChainReport {
    let lists = PLUGINS.lock();
    let numbers = NAMES.iter().zip(&COUNTS).map(|(name, count)| ((*name).to_owned(), read(count)));
    let counts = numbers.filter(|(_, number)| *number > 0).collect();
    ChainReport { plugins: lists.plugins.clone(), left_out: lists.left_out.clone(), counts }
}

#[cfg(test)]
mod tests {
    mod handles {
        use crate::chain::*;

        fn handles(number: u64) -> Handles {
            [number, number + 1, 0, number ^ 0xff]
        }

        #[test]
        fn open_events_stay_while_stopped_ones_make_room() {
            let table = HandleTable::with_bits(10);
            let open: Vec<u64> = (1..=100).map(|number| number << 6).collect();
            for &id in &open {
                assert!(table.put(id, 7, &handles(id)));
            }
            for id in (1000..50_000).map(|number| number << 6) {
                assert!(table.put(id, 8, &handles(id)));
                assert_eq!(table.get(id), Some((8, handles(id))));
                table.close(id);
            }
            for &id in &open {
                assert_eq!(table.get(id), Some((7, handles(id))), "{id}");
            }
            let kept = (1000..50_000).filter(|number| table.get(number << 6).is_some()).count();
            assert!((700..=924).contains(&kept), "{kept}");
            assert_eq!((table.get(0), table.get(BUSY), table.get(7)), (None, None, None));
        }

        #[test]
        fn what_never_stops_makes_room_in_the_end() {
            let table = HandleTable::with_bits(6);
            for id in 1..10_000 {
                assert!(table.put(id, 0, &handles(id)));
                assert!(table.get(id).is_some(), "{id}");
            }
            assert_eq!(table.remove(9_999), Some(handles(9_999)));
            assert_eq!((table.remove(9_999), table.get(9_999)), (None, None));
        }

        /// A thread may be delayed for long between finding an entry and taking it.
        #[test]
        fn a_place_that_was_taken_meanwhile_is_left_to_its_event() {
            let entry = Entry::free();
            let held = entry.id.load(Ordering::Relaxed);
            assert!(take(&entry, held, 64, 7, &handles(64)));
            assert!(!take(&entry, held, 128, 7, &handles(128)));
            assert_eq!(entry.id.load(Ordering::Relaxed), 64);
        }

        /// Threads put, read and take over each other's entries: each read must return values that belong together.
        #[test]
        fn handles_of_several_events_never_mix() {
            let table = HandleTable::with_bits(4);
            thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let table = &table;
                    scope.spawn(move || {
                        for round in 1..50_000 {
                            let id = (round * 4 + thread) << 6;
                            let _placed = table.put(id, id, &handles(id));
                            for id in [id, id - (4 << 6), (round * 4 + (thread + 1) % 4) << 6] {
                                if let Some((owner, found)) = table.get(id) {
                                    assert_eq!((owner, found), (id, handles(id)));
                                }
                            }
                            table.close(id);
                        }
                    });
                }
            });
        }
    }

    mod library {
        use crate::chain::*;

        #[test]
        fn a_name_is_tried_as_nccl_tries_it() {
            assert_eq!(files("inspector", false), ["libnccl-profiler-inspector.so", "inspector"]);
            assert_eq!(files("x", true), ["libnccl-profiler-x.so", "librccl-profiler-x.so", "x"]);
            assert_eq!(files("./x", true), ["./x"]);
        }
    }
}
