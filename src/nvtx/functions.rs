//! The functions that NVTX's tables get. Each makes one call into the guard and accepts NULL.

use std::ffi::{c_char, c_int, c_void};

use libc::wchar_t;

use super::first_call::push;
use super::guard::guarded;
use super::payload;
use super::strings::{self, Domain, StringHandle, bytes, pointer, wide};
use super::sys::{
    COLOR_ARGB, EnumAttributes, EventAttributes, Function, HAS_ENUM_SCHEMA, PayloadData, SchemaAttributes,
    message_type, payload_type,
};
use crate::host::version;
use crate::record::open_ranges::RangeName;
use crate::record::open_ranges::names::{name_and_number, note_other};
use crate::record::ranges::{self, NO_LEVEL};
use journal::format::low;
use nccl_events::range::{Range, RangeField, RangeFields};

/// A function as NVTX's tables hold it.
const fn erased(function: *const ()) -> Function {
    function.cast()
}

/// By the ids of `NvtxCallbackIdCore`.
pub(super) const CORE: &[(usize, Function)] = &[
    (1, erased(mark_ex as *const ())),
    (2, erased(mark_a as *const ())),
    (3, erased(mark_w as *const ())),
    (4, erased(start_ex as *const ())),
    (5, erased(start_a as *const ())),
    (6, erased(start_w as *const ())),
    (7, erased(end as *const ())),
    (8, erased(push_ex as *const ())),
    (9, erased(push_a as *const ())),
    (10, erased(push_w as *const ())),
    (11, erased(pop as *const ())),
    (12, erased(name_category_a as *const ())),
    (13, erased(name_category_w as *const ())),
];

/// By the ids of `NvtxCallbackIdCore2`.
pub(super) const CORE2: &[(usize, Function)] = &[
    (1, erased(domain_mark_ex as *const ())),
    (2, erased(domain_start_ex as *const ())),
    (3, erased(domain_end as *const ())),
    (4, erased(domain_push_ex as *const ())),
    (5, erased(domain_pop as *const ())),
    (8, erased(domain_name_category_a as *const ())),
    (9, erased(domain_name_category_w as *const ())),
    (10, erased(register_string_a as *const ())),
    (11, erased(register_string_w as *const ())),
    (12, erased(create_domain_a as *const ())),
    (13, erased(create_domain_w as *const ())),
];

/// By the ids of the payload extension (`NVTX3EXT_CBID_…`).
pub(super) const PAYLOAD: &[(usize, Function)] = &[
    (0, erased(register_schema as *const ())),
    (1, erased(register_enum as *const ())),
    (2, erased(mark_payload as *const ())),
    (3, erased(push_payload as *const ())),
    (4, erased(pop_payload as *const ())),
    (5, erased(start_payload as *const ())),
    (6, erased(end_payload as *const ())),
    (7, erased(is_enabled as *const ())),
];

type Handle = *const c_void;

/// A range with the attributes that the program gave.
///
/// # Safety
/// `attributes` is NULL or as NVTX demands: as long as its size says, with a message of its type.
#[inline]
unsafe fn with_attributes(domain: Domain, attributes: *const EventAttributes) -> Range<RangeName> {
    let mut range = nameless(domain);
    // SAFETY: the contract.
    let Some(it) = (unsafe { attributes.as_ref() }) else {
        return range;
    };
    if usize::from(it.size) < size_of::<EventAttributes>() {
        return range;
    }
    let (name, number) = match it.message_type {
        message_type::REGISTERED => StringHandle::read(it.message),
        // SAFETY: a C string (contract).
        message_type::ASCII => name_and_number(unsafe { bytes(it.message.cast()) }, domain.whose()),
        // SAFETY: a wide string (contract).
        message_type::UNICODE => name_and_number(&unsafe { wide(it.message.cast()) }, domain.whose()),
        _ => (None, None),
    };
    note_other(name);
    range.name = name;
    let fields = &mut range.fields;
    if let Some(number) = number {
        fields.add(RangeField::Number, number);
    }
    if it.category != 0 {
        fields.add(RangeField::Category, it.category.into());
        range.category = strings::category_name(domain, it.category);
    }
    if it.color_type == COLOR_ARGB && !domain.is_nccl {
        fields.add(RangeField::Color, it.color.into());
    }
    let low = low(it.payload);
    match it.payload_type {
        payload_type::UNSIGNED_INT64 => fields.add(RangeField::Unsigned, it.payload),
        payload_type::UNSIGNED_INT32 => fields.add(RangeField::Unsigned, low.into()),
        payload_type::INT64 => fields.add(RangeField::Signed, it.payload),
        payload_type::INT32 => {
            fields.add(RangeField::Signed, i64::from(low.cast_signed()).cast_unsigned());
        }
        payload_type::DOUBLE => fields.add(RangeField::Float, it.payload),
        payload_type::FLOAT => fields.add(RangeField::Float, f64::from(f32::from_bits(low)).to_bits()),
        payload_type::EXTENDED => {
            let data: *const PayloadData = pointer(it.payload).cast_const().cast();
            // SAFETY: the address of that many payloads (contract).
            unsafe { payload::read(domain, data, usize::try_from(it.reserved0).unwrap_or(0).max(1), fields) };
        }
        _ => {}
    }
    range
}

fn nameless(domain: Domain) -> Range<RangeName> {
    Range { domain: domain.name, name: None, category: None, fields: RangeFields::default() }
}

#[inline]
fn with_text(domain: Domain, text: &[u8]) -> Range<RangeName> {
    let (name, number) = name_and_number(text, domain.whose());
    note_other(name);
    let mut range = Range { name, ..nameless(domain) };
    if let Some(number) = number {
        range.fields.add(RangeField::Number, number);
    }
    range
}

/// Runs `body` with the domain of a handle if its ranges are wanted.
#[inline]
fn in_domain<R>(function: &'static str, domain: Handle, neutral: R, body: impl FnOnce(Domain) -> Option<R>) -> R
where
    R: Copy,
{
    guarded(function, neutral, || {
        let domain = Domain::read(domain);
        let done = if domain.is_wanted { body(domain) } else { None };
        done.unwrap_or(neutral)
    })
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $neutral:expr, $domain:expr, |$in:ident| $body:expr;)*) => {
        $(
            /// # Safety
            /// The arguments are as NVTX's documentation demands: pointers are NULL or valid, strings end with a zero.
            unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                in_domain(stringify!($name), $domain, $neutral, |$in| Some($body))
            }
        )*
    };
}

const DEFAULT: Handle = std::ptr::null();

functions! {
    push_ex(attributes: *const EventAttributes) -> c_int = NO_LEVEL, DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::push(&unsafe { with_attributes(domain, attributes) })
    };
    push_a(text: *const c_char) -> c_int = NO_LEVEL, DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::push(&with_text(domain, unsafe { bytes(text) }))
    };
    push_w(text: *const wchar_t) -> c_int = NO_LEVEL, DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::push(&with_text(domain, &unsafe { wide(text) }))
    };
    pop() -> c_int = NO_LEVEL, DEFAULT, |domain| ranges::pop(domain.name, &RangeFields::default());
    start_ex(attributes: *const EventAttributes) -> u64 = 0, DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::start(&unsafe { with_attributes(domain, attributes) })
    };
    start_a(text: *const c_char) -> u64 = 0, DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::start(&with_text(domain, unsafe { bytes(text) }))
    };
    start_w(text: *const wchar_t) -> u64 = 0, DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::start(&with_text(domain, &unsafe { wide(text) }))
    };
    end(id: u64) = (), DEFAULT, |_domain| ranges::end(id, &RangeFields::default());
    mark_ex(attributes: *const EventAttributes) = (), DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::mark(&unsafe { with_attributes(domain, attributes) })
    };
    mark_a(text: *const c_char) = (), DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::mark(&with_text(domain, unsafe { bytes(text) }))
    };
    mark_w(text: *const wchar_t) = (), DEFAULT, |domain| {
        // SAFETY: this function's contract.
        ranges::mark(&with_text(domain, &unsafe { wide(text) }))
    };
    name_category_a(number: u32, name: *const c_char) = (), DEFAULT, |domain| {
        // SAFETY: this function's contract.
        strings::name_category(domain, number, unsafe { bytes(name) })
    };
    name_category_w(number: u32, name: *const wchar_t) = (), DEFAULT, |domain| {
        // SAFETY: this function's contract.
        strings::name_category(domain, number, &unsafe { wide(name) })
    };
    domain_push_ex(domain: Handle, attributes: *const EventAttributes) -> c_int = NO_LEVEL, domain, |domain| {
        // SAFETY: this function's contract.
        push(domain, &unsafe { with_attributes(domain, attributes) })
    };
    domain_pop(domain: Handle) -> c_int = NO_LEVEL, domain, |domain| {
        ranges::pop(domain.name, &RangeFields::default())
    };
    domain_start_ex(domain: Handle, attributes: *const EventAttributes) -> u64 = 0, domain, |domain| {
        // SAFETY: this function's contract.
        ranges::start(&unsafe { with_attributes(domain, attributes) })
    };
    domain_end(domain: Handle, id: u64) = (), domain, |_domain| ranges::end(id, &RangeFields::default());
    domain_mark_ex(domain: Handle, attributes: *const EventAttributes) = (), domain, |domain| {
        // SAFETY: this function's contract.
        ranges::mark(&unsafe { with_attributes(domain, attributes) })
    };
    domain_name_category_a(domain: Handle, number: u32, name: *const c_char) = (), domain, |domain| {
        // SAFETY: this function's contract.
        strings::name_category(domain, number, unsafe { bytes(name) })
    };
    domain_name_category_w(domain: Handle, number: u32, name: *const wchar_t) = (), domain, |domain| {
        // SAFETY: this function's contract.
        strings::name_category(domain, number, &unsafe { wide(name) })
    };
    push_payload(domain: Handle, data: *const PayloadData, count: usize) -> c_int = NO_LEVEL, domain, |domain| {
        // SAFETY: this function's contract.
        let fields = unsafe { of_payload(domain, data, count) };
        ranges::push(&Range { fields, ..nameless(domain) })
    };
    pop_payload(domain: Handle, data: *const PayloadData, count: usize) -> c_int = NO_LEVEL, domain, |domain| {
        // SAFETY: this function's contract.
        ranges::pop(domain.name, &unsafe { of_payload(domain, data, count) })
    };
    start_payload(domain: Handle, data: *const PayloadData, count: usize) -> u64 = 0, domain, |domain| {
        // SAFETY: this function's contract.
        let fields = unsafe { of_payload(domain, data, count) };
        ranges::start(&Range { fields, ..nameless(domain) })
    };
    end_payload(domain: Handle, id: u64, data: *const PayloadData, count: usize) = (), domain, |domain| {
        // SAFETY: this function's contract.
        ranges::end(id, &unsafe { of_payload(domain, data, count) })
    };
    mark_payload(domain: Handle, data: *const PayloadData, count: usize) = (), domain, |domain| {
        // SAFETY: this function's contract.
        let fields = unsafe { of_payload(domain, data, count) };
        ranges::mark(&Range { fields, ..nameless(domain) })
    };
    is_enabled(domain: Handle) -> u8 = 0, domain, |_domain| 1;
}

/// # Safety
/// As [`payload::read`].
unsafe fn of_payload(domain: Domain, data: *const PayloadData, count: usize) -> RangeFields {
    let mut fields = RangeFields::default();
    // SAFETY: the contract.
    unsafe { payload::read(domain, data, count, &mut fields) };
    fields
}

/// # Safety
/// `name` is NULL or a C string.
unsafe extern "C" fn create_domain_a(name: *const c_char) -> Handle {
    // SAFETY: the contract.
    let text = unsafe { bytes(name) };
    guarded("nvtxDomainCreateA", DEFAULT, || {
        let handle: Handle = pointer(Domain::create(text));
        if Domain::read(handle).is_nccl {
            version::note(name.cast());
        }
        handle
    })
}

/// # Safety
/// `name` is NULL or a wide string.
unsafe extern "C" fn create_domain_w(name: *const wchar_t) -> Handle {
    // SAFETY: the contract.
    guarded("nvtxDomainCreateW", DEFAULT, || pointer(Domain::create(&unsafe { wide(name) })))
}

fn registered(domain: Handle, text: &[u8]) -> Handle {
    StringHandle::of(text, Domain::read(domain).whose()).map_or(DEFAULT, |handle| pointer(handle.bits()))
}

/// # Safety
/// `text` is NULL or a C string.
unsafe extern "C" fn register_string_a(domain: Handle, text: *const c_char) -> Handle {
    // SAFETY: the contract.
    guarded("nvtxDomainRegisterStringA", DEFAULT, || registered(domain, unsafe { bytes(text) }))
}

/// # Safety
/// `text` is NULL or a wide string.
unsafe extern "C" fn register_string_w(domain: Handle, text: *const wchar_t) -> Handle {
    // SAFETY: the contract.
    guarded("nvtxDomainRegisterStringW", DEFAULT, || registered(domain, &unsafe { wide(text) }))
}

/// # Safety
/// `attributes` is NULL or as NVTX demands.
unsafe extern "C" fn register_schema(domain: Handle, attributes: *const SchemaAttributes) -> u64 {
    guarded("nvtxPayloadSchemaRegister", 0, || {
        // SAFETY: the contract.
        let attributes = unsafe { attributes.as_ref() };
        // SAFETY: the contract.
        attributes.map_or(0, |it| unsafe { payload::register(Domain::read(domain), it) })
    })
}

/// # Safety
/// `attributes` is NULL or as NVTX demands.
unsafe extern "C" fn register_enum(_domain: Handle, attributes: *const EnumAttributes) -> u64 {
    guarded("nvtxPayloadEnumRegister", 0, || {
        // SAFETY: the contract.
        let attributes = unsafe { attributes.as_ref() };
        attributes.map_or(0, |it| payload::id_of(it.field_mask & HAS_ENUM_SCHEMA != 0, it.schema))
    })
}
