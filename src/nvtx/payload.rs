//! NCCL's payloads. NCCL describes each by a schema: the schemas differ between releases, the names of entries do not.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::strings::{Domain, is};
use super::sys::{DYNAMIC_SCHEMAS, HAS_SCHEMA, PayloadData, STATIC_SCHEMAS, SchemaAttributes, SchemaEntry};
use crate::host::memory;
use nccl_events::range::{RangeField, RangeFields};

/// What NCCL calls the entries of its payloads.
const ENTRIES: [(&CStr, RangeField); 12] = [
    (c"NCCL communicator ID", RangeField::CommId),
    (c"Parent NCCL communicator ID", RangeField::ParentCommId),
    (c"No. of ranks", RangeField::Ranks),
    (c"Rank", RangeField::Rank),
    (c"CUDA device", RangeField::Device),
    (c"Message size [bytes]", RangeField::Bytes),
    (c"Reduction operation", RangeField::Reduction),
    (c"Root", RangeField::Root),
    (c"Peer rank", RangeField::Peer),
    (c"Peer", RangeField::Peer),
    (c"Color", RangeField::SplitColor),
    (c"Key", RangeField::SplitKey),
];

#[derive(Clone, Copy)]
struct Entry {
    field: RangeField,
    offset: usize,
    width: Width,
}

#[derive(Clone, Copy)]
enum Width {
    Signed32,
    Unsigned32,
    Unsigned64,
}

impl Width {
    /// The width of a type of NVTX's. NCCL's own types are enumerations, which are C's `int`.
    const fn of(kind: u64) -> Option<Self> {
        match kind {
            5 | 15 => Some(Self::Signed32),
            6 | 16 => Some(Self::Unsigned32),
            // On the systems that NCCL runs on.
            7..=10 | 17 | 18 | 22 => Some(Self::Unsigned64),
            STATIC_SCHEMAS.. => Some(Self::Signed32),
            _ => None,
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::Signed32 | Self::Unsigned32 => 4,
            Self::Unsigned64 => 8,
        }
    }
}

struct Layout {
    entries: [Option<Entry>; RangeFields::MOST],
}

/// NCCL's schemas, by what their id is more than [`STATIC_SCHEMAS`].
static SCHEMAS: [AtomicPtr<Layout>; 64] = [const { AtomicPtr::new(ptr::null_mut()) }; 64];
static NEXT_DYNAMIC: AtomicU64 = AtomicU64::new(DYNAMIC_SCHEMAS);

fn place(id: u64) -> Option<&'static AtomicPtr<Layout>> {
    SCHEMAS.get(usize::try_from(id.checked_sub(STATIC_SCHEMAS)?).ok()?)
}

/// The id of a schema that the program registers: its own, else a new one.
pub(super) fn id_of(has_id: bool, id: u64) -> u64 {
    if has_id { id } else { NEXT_DYNAMIC.fetch_add(1, Ordering::Relaxed) }
}

/// Learns a schema of NCCL's and returns its id.
///
/// # Safety
/// The attributes are as NVTX demands: the entries are an array of that length, their names NULL or C strings.
pub(super) unsafe fn register(domain: Domain, attributes: &SchemaAttributes) -> u64 {
    let id = id_of(attributes.field_mask & HAS_SCHEMA != 0, attributes.schema);
    let Some(place) = place(id).filter(|_| domain.is_nccl && !attributes.entries.is_null() && !memory::has_failed())
    else {
        return id;
    };
    let mut layout = Layout { entries: [None; RangeFields::MOST] };
    let mut free = layout.entries.iter_mut();
    let mut end = 0;
    for at in 0..attributes.entry_count.min(16) {
        // SAFETY: the contract.
        let entry = unsafe { attributes.entries.add(at) };
        // SAFETY: the contract.
        let entry: &SchemaEntry = unsafe { &*entry };
        let Some(width) = Width::of(entry.kind) else {
            // Where the following ones are is known only if they say it.
            end = usize::MAX;
            continue;
        };
        let natural = end.checked_next_multiple_of(width.bytes());
        let offset = if entry.offset == 0 { natural } else { usize::try_from(entry.offset).ok() };
        let Some(offset) = offset else {
            continue;
        };
        end = offset.saturating_add(width.bytes());
        // SAFETY: the contract.
        let known = ENTRIES.iter().find(|(name, _)| unsafe { is(entry.name, name) });
        if let Some((_, field)) = known
            && let Some(to) = free.next()
        {
            *to = Some(Entry { field: *field, offset, width });
        }
    }
    // An earlier schema of this id may be in use, so it stays: a library registers each once.
    place.store(Box::into_raw(Box::new(layout)), Ordering::Release);
    id
}

/// Reads NCCL's payloads; those of other domains have schemas of their own under the same ids.
///
/// # Safety
/// `data` is NULL or an array of `count` payloads, whose pointers are valid for their sizes.
#[inline]
pub(super) unsafe fn read(domain: Domain, data: *const PayloadData, count: usize, fields: &mut RangeFields) {
    if data.is_null() || !domain.is_nccl {
        return;
    }
    for at in 0..count.min(4) {
        // SAFETY: the contract.
        let one = unsafe { data.add(at) };
        // SAFETY: the contract.
        let PayloadData { schema: id, size, payload } = unsafe { one.read() };
        let layout = place(id).map_or(ptr::null_mut(), |place| place.load(Ordering::Acquire));
        // SAFETY: NULL, or a leaked box that was whole when it was stored with release order.
        let Some(layout) = (unsafe { layout.as_ref() }) else {
            continue;
        };
        // A size that the program does not know says nothing of what may be read.
        if payload.is_null() || size == usize::MAX {
            continue;
        }
        for entry in layout.entries.iter().flatten() {
            if entry.offset.checked_add(entry.width.bytes()).is_none_or(|end| end > size) {
                continue;
            }
            // SAFETY: within the payload's size.
            let value = unsafe { payload.byte_add(entry.offset) };
            let value = match entry.width {
                // SAFETY: as above.
                Width::Signed32 => i64::from(unsafe { value.cast::<i32>().read_unaligned() }).cast_unsigned(),
                // SAFETY: as above.
                Width::Unsigned32 => u64::from(unsafe { value.cast::<u32>().read_unaligned() }),
                // SAFETY: as above.
                Width::Unsigned64 => unsafe { value.cast::<u64>().read_unaligned() },
            };
            fields.add(entry.field, value);
        }
    }
}
