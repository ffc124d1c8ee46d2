//! What NVTX passes: handles of domains and registered strings, NCCL's payloads, and the C types of NVTX 3
//! (`nvToolsExt.h`, `nvtxTypes.h`, `nvToolsExtPayload.h`, `nvtxExtTypes.h`). Handles are numbers, not pointers: nothing
//! is freed, and a handle of a library that was unloaded means what it meant.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::host::threads;
use crate::nvtx::begin::choice;
use crate::record::open_ranges::{NameOwner, RangeName, intern, name_and_number, named};
use nccl_events::Name;
use nccl_events::range::{NCCL_DOMAIN, RangeField, RangeFields};
use settings::NvtxChoice;

/// Set in every handle, so that none is NULL.
const IS_HANDLE: u64 = 1;

/// A registered string: name (bits 4–15), and the number in it (bits 16–63) if bit 1 is set.
#[derive(Clone, Copy)]
pub(super) struct StringHandle(u64);

const HAS_NUMBER: u64 = 2;
const NUMBER_BIT: u32 = 16;
const NAME_BIT: u32 = 4;
const NAME_MASK: u64 = 0xfff;

/// The handle that stands for these bits in C.
pub(super) fn pointer(handle: u64) -> *mut c_void {
    ptr::without_provenance_mut(usize::try_from(handle).unwrap_or(0))
}

fn name_bits(name: RangeName) -> u64 {
    name.map_or(NAME_MASK, |name| u64::from(name.number())) << NAME_BIT
}

fn name_of(handle: u64) -> RangeName {
    named(handle >> NAME_BIT & NAME_MASK)
}

impl StringHandle {
    pub(super) fn from_text(text: &[u8], owner: NameOwner) -> Option<Self> {
        let (name, number) = name_and_number(text, owner);
        let name = name_bits(Some(name?));
        let number = number.filter(|number| number >> (u64::BITS - NUMBER_BIT) == 0);
        Some(Self(IS_HANDLE | name | number.map_or(0, |number| HAS_NUMBER | number << NUMBER_BIT)))
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn read(handle: *const c_void) -> (RangeName, Option<u64>) {
        let bits = handle.addr() as u64;
        if bits & IS_HANDLE == 0 {
            return (None, None);
        }
        (name_of(bits), (bits & HAS_NUMBER != 0).then_some(bits >> NUMBER_BIT))
    }
}

/// A domain: name (bits 4–15, if bit 3 is set), whether its ranges are recorded, whether it is NCCL's.
#[derive(Clone, Copy)]
pub(super) struct Domain {
    pub(super) name: RangeName,
    pub(super) is_wanted: bool,
    pub(super) is_nccl: bool,
}

const IS_WANTED: u64 = 2;
const IS_NCCL: u64 = 4;
const HAS_NAME: u64 = 8;

impl Domain {
    pub(super) fn name_owner(self) -> NameOwner {
        if self.is_nccl { NameOwner::Nccl } else { NameOwner::Program }
    }

    pub(super) fn create(name: &[u8]) -> u64 {
        let is_nccl = name == NCCL_DOMAIN.as_bytes();
        let is_wanted = match choice() {
            NvtxChoice::Off => false,
            NvtxChoice::Nccl => is_nccl,
            NvtxChoice::Auto => !is_of_library(name),
            NvtxChoice::All => true,
        };
        let flags = if is_wanted { IS_WANTED } else { 0 } | if is_nccl { IS_NCCL } else { 0 };
        let name = intern(name, NameOwner::Nccl);
        IS_HANDLE | flags | name.map_or(0, |_| HAS_NAME | name_bits(name))
    }

    /// The domain of a handle; NVTX's default domain for NULL.
    #[inline]
    pub(super) fn read(handle: *const c_void) -> Self {
        let bits = handle.addr() as u64;
        if bits & IS_HANDLE == 0 {
            let is_wanted = matches!(choice(), NvtxChoice::Auto | NvtxChoice::All);
            return Self { name: None, is_wanted, is_nccl: false };
        }
        let name = if bits & HAS_NAME == 0 { None } else { name_of(bits) };
        Self { name, is_wanted: bits & IS_WANTED != 0, is_nccl: bits & IS_NCCL != 0 }
    }
}

/// Whether a domain belongs to a CUDA library, whose calls are many and not the program's own words.
fn is_of_library(domain: &[u8]) -> bool {
    const BEGINNINGS: [&str; 6] = ["CCCL", "CUDNN", "DALI", "NVSHMEM", "TensorRT", "libcu"];
    let is_cuda = domain.starts_with(b"cu") && domain.get(2).is_some_and(u8::is_ascii_uppercase);
    is_cuda || BEGINNINGS.iter().any(|beginning| domain.starts_with(beginning.as_bytes()))
}

/// The names of categories: domain and number of the category, and the number of the name.
static CATEGORIES: [Category; 256] = [const { Category { key: AtomicU64::new(0), name: OnceLock::new() } }; 256];

struct Category {
    /// The number of the domain's name and the category's number; 0 for a free place.
    key: AtomicU64,
    name: OnceLock<u16>,
}

fn category_key(domain: Domain, number: u32) -> u64 {
    let domain_number = domain.name.map_or(0, |name| u64::from(name.number()) + 1);
    (domain_number + 1) << 32 | u64::from(number)
}

fn category_places(key: u64) -> impl Iterator<Item = &'static Category> {
    let first = usize::try_from(key % CATEGORIES.len() as u64).unwrap_or(0);
    (0..CATEGORIES.len()).filter_map(move |probe| CATEGORIES.get((first + probe) % CATEGORIES.len()))
}

pub(super) fn name_category(domain: Domain, number: u32, name: &[u8]) {
    let (key, Some(name)) = (category_key(domain, number), intern(name, NameOwner::Nccl)) else {
        return;
    };
    for place in category_places(key) {
        let taken = place.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() || taken == Err(key) {
            let _first = place.name.set(name.number());
            return;
        }
    }
}

/// The name of a category, if it has one.
pub(super) fn category_name(domain: Domain, number: u32) -> RangeName {
    let key = category_key(domain, number);
    let mut places = category_places(key).take_while(|place| place.key.load(Ordering::Relaxed) != 0);
    let place = places.find(|place| place.key.load(Ordering::Relaxed) == key)?;
    named(u64::from(*place.name.get()?))
}

/// The bytes of a C string; none for NULL.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string that stays for `'a`.
pub(super) unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the contract.
    unsafe { Name::from_ptr(text) }.bytes()
}

/// The beginning of a wide string as UTF-8.
pub(super) struct Utf8 {
    bytes: [u8; Name::MAX_BYTES],
    length: usize,
}

impl Deref for Utf8 {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

/// A wide string, as far as it fits.
///
/// # Safety
/// `text` is NULL or ends with a zero.
pub(super) unsafe fn wide(text: *const libc::wchar_t) -> Utf8 {
    let mut utf8 = Utf8 { bytes: [0; Name::MAX_BYTES], length: 0 };
    for at in 0..Name::MAX_BYTES {
        if text.is_null() {
            break;
        }
        // SAFETY: the contract; no earlier character was the last one.
        let place = unsafe { text.add(at) };
        // SAFETY: as above.
        let character = unsafe { place.read() };
        if character == 0 {
            break;
        }
        let character = u32::try_from(character).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
        let mut encoded = [0; 4];
        let encoded = character.encode_utf8(&mut encoded).as_bytes();
        let Some(room) = utf8.bytes.get_mut(utf8.length..utf8.length + encoded.len()) else {
            break;
        };
        room.copy_from_slice(encoded);
        utf8.length += encoded.len();
    }
    utf8
}

/// Whether `text` is the string `expected`, whatever the case of its letters.
///
/// # Safety
/// As [`bytes`].
pub(super) unsafe fn is(text: *const c_char, expected: &CStr) -> bool {
    // SAFETY: the contract.
    unsafe { bytes(text) }.eq_ignore_ascii_case(expected.to_bytes())
}

// NCCL describes each payload by a schema: the schemas differ between releases, the names of entries do not.

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
    const fn from_type(kind: u64) -> Option<Self> {
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
    let Some(place) = place(id).filter(|_| domain.is_nccl && !attributes.entries.is_null() && !threads::has_failed())
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
        let Some(width) = Width::from_type(entry.kind) else {
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

/// `nvtxEventAttributes_t`.
#[repr(C)]
pub(super) struct EventAttributes {
    pub version: u16,
    pub size: u16,
    pub category: u32,
    pub color_type: i32,
    pub color: u32,
    pub payload_type: i32,
    /// The number of extended payloads.
    pub reserved0: i32,
    pub payload: u64,
    pub message_type: i32,
    /// A string, or a handle that [`crate::nvtx::strings`] made.
    pub message: *const c_void,
}

const _: () = assert!(size_of::<EventAttributes>() == 48);

pub(super) mod message_type {
    pub(crate) const ASCII: i32 = 1;
    pub(crate) const UNICODE: i32 = 2;
    pub(crate) const REGISTERED: i32 = 3;
}

pub(super) mod payload_type {
    pub(crate) const UNSIGNED_INT64: i32 = 1;
    pub(crate) const INT64: i32 = 2;
    pub(crate) const DOUBLE: i32 = 3;
    pub(crate) const UNSIGNED_INT32: i32 = 4;
    pub(crate) const INT32: i32 = 5;
    pub(crate) const FLOAT: i32 = 6;
    pub(crate) const EXTENDED: i32 = 0xdfbd_0009_u32.cast_signed();
}

pub(super) const COLOR_ARGB: i32 = 1;

/// `nvtxPayloadData_t`.
#[repr(C)]
pub(super) struct PayloadData {
    pub schema: u64,
    pub size: usize,
    pub payload: *const c_void,
}

/// `nvtxPayloadSchemaEntry_t`.
#[repr(C)]
pub(super) struct SchemaEntry {
    pub flags: u64,
    pub kind: u64,
    pub name: *const c_char,
    pub description: *const c_char,
    pub detail: u64,
    pub offset: u64,
    pub semantics: *const c_void,
    pub reserved: *const c_void,
}

/// `nvtxPayloadSchemaAttr_t`.
#[repr(C)]
pub(super) struct SchemaAttributes {
    pub field_mask: u64,
    pub name: *const c_char,
    pub kind: u64,
    pub flags: u64,
    pub entries: *const SchemaEntry,
    pub entry_count: usize,
    pub static_size: usize,
    pub pack_align: usize,
    pub schema: u64,
    pub extension: *const c_void,
}

/// `nvtxPayloadEnumAttr_t`.
#[repr(C)]
pub(super) struct EnumAttributes {
    pub field_mask: u64,
    pub name: *const c_char,
    pub entries: *const c_void,
    pub entry_count: usize,
    pub size: usize,
    pub schema: u64,
    pub extension: *const c_void,
}

/// The bit of a `field_mask` that says that `schema` is set.
pub(super) const HAS_SCHEMA: u64 = 1 << 8;
/// The same in [`EnumAttributes`].
pub(super) const HAS_ENUM_SCHEMA: u64 = 1 << 5;
/// Ids that a tool gives begin here.
pub(super) const DYNAMIC_SCHEMAS: u64 = 1 << 32;
/// Ids that programs choose begin here.
pub(super) const STATIC_SCHEMAS: u64 = 1 << 24;

pub(crate) type Function = *const c_void;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
pub(super) struct Callbacks {
    pub size: usize,
    pub module_functions:
        Option<unsafe extern "C" fn(module: c_int, table: *mut *mut *mut Function, size: *mut u32) -> c_int>,
}

pub(crate) type GetExportTable = Option<unsafe extern "C" fn(table: u32) -> *const c_void>;

pub(super) const TABLE_OF_CALLBACKS: u32 = 1;
pub(super) const MODULE_CORE: c_int = 1;
pub(super) const MODULE_CORE2: c_int = 5;

/// `nvtxExtModuleSegment_t`.
#[repr(C)]
pub(crate) struct Segment {
    pub id: usize,
    pub count: usize,
    pub functions: *mut Function,
}

/// `nvtxExtModuleInfo_t`.
#[repr(C)]
pub(crate) struct ExtensionModule {
    pub version: u16,
    pub size: u16,
    pub module: u16,
    pub compatibility: u16,
    pub segment_count: usize,
    pub segments: *mut Segment,
    pub get_export: *const c_void,
    pub info: *const c_void,
}

/// The payload extension.
pub(super) const MODULE_PAYLOAD: u16 = 2;
