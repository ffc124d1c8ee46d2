//! The handles of the chained plugins for each event or communicator of this plugin.
//!
//! A lock-free table of fixed size. An id's hash selects eight entries, and the id lies in one of these. A new id takes
//! a free entry among them, else the entry of the oldest event that has stopped, else the entry of the oldest event.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use journal::clock::ticks;

use super::PLUGINS;

/// The plugins' handles by plugin number; 0 for NULL.
pub(crate) type Handles = [u64; PLUGINS];

pub(crate) const NONE: Handles = [0; PLUGINS];
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
    handles: [AtomicU64; PLUGINS],
}

impl Entry {
    const fn free() -> Self {
        let handles = [const { AtomicU64::new(0) }; PLUGINS];
        Self { id: AtomicU64::new(0), since: AtomicU64::new(0), owner: AtomicU64::new(0), handles }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

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
        std::thread::scope(|scope| {
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
