//! NVTX's handles of domains and registered strings. They are numbers, not pointers: nothing is freed, and a handle
//! of a library that was unloaded means what it meant.

use std::ffi::{CStr, c_char, c_void};
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::begin::choice;
use crate::record::open_ranges::RangeName;
use crate::record::open_ranges::names::{Whose, intern, name_and_number, named};
use nccl_events::Name;
use nccl_events::range::NCCL_DOMAIN;
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
    std::ptr::without_provenance_mut(usize::try_from(handle).unwrap_or(0))
}

fn name_bits(name: RangeName) -> u64 {
    name.map_or(NAME_MASK, |name| u64::from(name.number())) << NAME_BIT
}

fn name_of(handle: u64) -> RangeName {
    named(handle >> NAME_BIT & NAME_MASK)
}

impl StringHandle {
    pub(super) fn of(text: &[u8], whose: Whose) -> Option<Self> {
        let (name, number) = name_and_number(text, whose);
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
    pub(super) fn whose(self) -> Whose {
        if self.is_nccl { Whose::Nccl } else { Whose::Program }
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
        let name = intern(name, Whose::Nccl);
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
    let of_domain = domain.name.map_or(0, |name| u64::from(name.number()) + 1);
    (of_domain + 1) << 32 | u64::from(number)
}

fn category_places(key: u64) -> impl Iterator<Item = &'static Category> {
    let first = usize::try_from(key % CATEGORIES.len() as u64).unwrap_or(0);
    (0..CATEGORIES.len()).filter_map(move |probe| CATEGORIES.get((first + probe) % CATEGORIES.len()))
}

pub(super) fn name_category(domain: Domain, number: u32, name: &[u8]) {
    let (key, Some(name)) = (category_key(domain, number), intern(name, Whose::Nccl)) else {
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
