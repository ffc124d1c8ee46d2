//! The functions that NVTX calls: the two with which it hands its tables over, and those that its tables get. Each
//! makes one call into the guard and accepts NULL. The call of NCCL's that makes the first communicator begins the
//! recording, if this library will be the profiler plugin, too.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::callbacks::SWITCH;
use crate::host::process;
use crate::nvtx::begin::begin;
use crate::nvtx::strings;
use crate::nvtx::strings::{
    COLOR_ARGB, Callbacks, Domain, EnumAttributes, EventAttributes, ExtensionModule, Function, GetExportTable,
    HAS_ENUM_SCHEMA, MODULE_CORE, MODULE_CORE2, MODULE_PAYLOAD, PayloadData, SchemaAttributes, StringHandle, bytes,
    message_type, payload_type, pointer, wide,
};
use crate::record::open_ranges::{RangeName, name_and_number, note_other};
use crate::record::ranges;
use crate::record::ranges::NO_LEVEL;
use crate::{record, session};
use journal::format::low;
use journal::uninterrupted::uninterrupted;
use libc::wchar_t;
use nccl_events::collective::{ends_communicator, is_of_communicators};
use nccl_events::range::{Range, RangeField, RangeFields};

/// NVTX calls this once for each binary that has NVTX, at its first NVTX call. Returns 1 if it took the functions over.
///
/// # Safety
/// `get_table` is NVTX's, or NULL.
// SAFETY: the name is NVTX's, for exactly this purpose: it is looked up through the handle of the injection.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn InitializeInjectionNvtx2(get_table: GetExportTable) -> c_int {
    let is_taken = SWITCH.run_whole("InitializeInjectionNvtx2", || {
        let Some(get_table) = get_table.filter(|_| !SWITCH.is_off() && begin()) else {
            return false;
        };
        // SAFETY: NVTX's function (contract).
        let callbacks = unsafe { get_table(strings::TABLE_OF_CALLBACKS) }.cast::<Callbacks>();
        // SAFETY: NULL, or NVTX's table, which stays.
        let Some(callbacks) = (unsafe { callbacks.as_ref() }) else {
            return false;
        };
        for (module, functions) in [(MODULE_CORE, CORE), (MODULE_CORE2, CORE2)] {
            // SAFETY: NVTX's own table of callbacks.
            unsafe { take_over(callbacks, module, functions) };
        }
        true
    });
    c_int::from(is_taken == Some(true))
}

/// # Safety
/// `callbacks` is NVTX's, and the functions have the types of the ids in this module.
unsafe fn take_over(callbacks: &Callbacks, module: c_int, functions: &[(usize, Function)]) {
    let (mut table, mut size) = (std::ptr::null_mut(), 0);
    let Some(module_functions) = callbacks.module_functions else {
        return;
    };
    // SAFETY: NVTX's function, with places for its results.
    if unsafe { module_functions(module, &raw mut table, &raw mut size) } == 0 || table.is_null() {
        return;
    }
    for (id, function) in functions {
        if *id >= size as usize {
            continue;
        }
        // SAFETY: the table has `size` entries.
        let entry = unsafe { table.add(*id) };
        // SAFETY: as above.
        let place = unsafe { entry.read() };
        if !place.is_null() {
            // SAFETY: the place of NVTX's pointer to the function with this id.
            unsafe { place.write(*function) };
        }
    }
}

/// NVTX calls this once for each extension of a binary, at its first call. Returns 1 if it took the functions over.
///
/// # Safety
/// `module` is NVTX's, or NULL.
// SAFETY: as for `InitializeInjectionNvtx2`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn InitializeInjectionNvtxExtension(module: *mut ExtensionModule) -> c_int {
    let is_taken = SWITCH.run_whole("InitializeInjectionNvtxExtension", || {
        // SAFETY: NULL, or NVTX's own module (contract).
        let Some(module) = (unsafe { module.as_ref() }) else {
            return false;
        };
        if SWITCH.is_off() || module.module != MODULE_PAYLOAD || module.segment_count == 0 || !begin() {
            return false;
        }
        // SAFETY: NULL, or the first of at least one segment.
        let Some(segment) = (unsafe { module.segments.as_ref() }) else {
            return false;
        };
        for (id, function) in PAYLOAD {
            if *id < segment.count && !segment.functions.is_null() {
                // SAFETY: the segment has `count` places.
                let place = unsafe { segment.functions.add(*id) };
                // SAFETY: as above.
                unsafe { place.write(*function) };
            }
        }
        true
    });
    c_int::from(is_taken == Some(true))
}

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
    let Some(event) = (unsafe { attributes.as_ref() }) else {
        return range;
    };
    if usize::from(event.size) < size_of::<EventAttributes>() {
        return range;
    }
    let (name, number) = match event.message_type {
        message_type::REGISTERED => StringHandle::read(event.message),
        // SAFETY: a C string (contract).
        message_type::ASCII => name_and_number(unsafe { bytes(event.message.cast()) }, domain.name_owner()),
        // SAFETY: a wide string (contract).
        message_type::UNICODE => name_and_number(&unsafe { wide(event.message.cast()) }, domain.name_owner()),
        _ => (None, None),
    };
    note_other(name);
    range.name = name;
    let fields = &mut range.fields;
    if let Some(number) = number {
        fields.add(RangeField::Number, number);
    }
    if event.category != 0 {
        fields.add(RangeField::Category, event.category.into());
        range.category = strings::category_name(domain, event.category);
    }
    if event.color_type == COLOR_ARGB && !domain.is_nccl {
        fields.add(RangeField::Color, event.color.into());
    }
    let low = low(event.payload);
    match event.payload_type {
        payload_type::UNSIGNED_INT64 => fields.add(RangeField::Unsigned, event.payload),
        payload_type::UNSIGNED_INT32 => fields.add(RangeField::Unsigned, low.into()),
        payload_type::INT64 => fields.add(RangeField::Signed, event.payload),
        payload_type::INT32 => {
            fields.add(RangeField::Signed, i64::from(low.cast_signed()).cast_unsigned());
        }
        payload_type::DOUBLE => fields.add(RangeField::Float, event.payload),
        payload_type::FLOAT => fields.add(RangeField::Float, f64::from(f32::from_bits(low)).to_bits()),
        payload_type::EXTENDED => {
            let data: *const PayloadData = pointer(event.payload).cast_const().cast();
            // SAFETY: the address of that many payloads (contract).
            unsafe { strings::read(domain, data, usize::try_from(event.reserved0).unwrap_or(0).max(1), fields) };
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
    let (name, number) = name_and_number(text, domain.name_owner());
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
        let fields = unsafe { payload_fields(domain, data, count) };
        ranges::push(&Range { fields, ..nameless(domain) })
    };
    pop_payload(domain: Handle, data: *const PayloadData, count: usize) -> c_int = NO_LEVEL, domain, |domain| {
        // SAFETY: this function's contract.
        ranges::pop(domain.name, &unsafe { payload_fields(domain, data, count) })
    };
    start_payload(domain: Handle, data: *const PayloadData, count: usize) -> u64 = 0, domain, |domain| {
        // SAFETY: this function's contract.
        let fields = unsafe { payload_fields(domain, data, count) };
        ranges::start(&Range { fields, ..nameless(domain) })
    };
    end_payload(domain: Handle, id: u64, data: *const PayloadData, count: usize) = (), domain, |domain| {
        // SAFETY: this function's contract.
        ranges::end(id, &unsafe { payload_fields(domain, data, count) })
    };
    mark_payload(domain: Handle, data: *const PayloadData, count: usize) = (), domain, |domain| {
        // SAFETY: this function's contract.
        let fields = unsafe { payload_fields(domain, data, count) };
        ranges::mark(&Range { fields, ..nameless(domain) })
    };
    is_enabled(domain: Handle) -> u8 = 0, domain, |_domain| 1;
}

/// # Safety
/// As [`crate::nvtx::strings::read`].
unsafe fn payload_fields(domain: Domain, data: *const PayloadData, count: usize) -> RangeFields {
    let mut fields = RangeFields::default();
    // SAFETY: the contract.
    unsafe { strings::read(domain, data, count, &mut fields) };
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
            process::note(name.cast());
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
    StringHandle::from_text(text, Domain::read(domain).name_owner()).map_or(DEFAULT, |handle| pointer(handle.bits()))
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
        attributes.map_or(0, |attributes| unsafe { strings::register(Domain::read(domain), attributes) })
    })
}

/// # Safety
/// `attributes` is NULL or as NVTX demands.
unsafe extern "C" fn register_enum(_domain: Handle, attributes: *const EnumAttributes) -> u64 {
    guarded("nvtxPayloadEnumRegister", 0, || {
        // SAFETY: the contract.
        let attributes = unsafe { attributes.as_ref() };
        attributes
            .map_or(0, |attributes| strings::id_of(attributes.field_mask & HAS_ENUM_SCHEMA != 0, attributes.schema))
    })
}

/// A range begins on this thread. NCCL's first one that makes a communicator begins the recording: in it a rank waits
/// for the others, before NCCL calls the profiler plugin.
#[inline]
pub(super) fn push(domain: Domain, range: &Range<RangeName>) -> i32 {
    let is_idle = domain.is_nccl && !record::is_on();
    let level = ranges::push(range);
    if is_idle {
        begin_recording(range.name);
    }
    level
}

#[cold]
#[inline(never)]
fn begin_recording(call: RangeName) {
    let is_made = |name: &str| is_of_communicators(name) && !ends_communicator(name);
    let is_first = call.is_some_and(|name| is_made(&String::from_utf8_lossy(name.text().bytes())));
    if is_first && uninterrupted(session::begin_before_init) {
        ranges::join();
    }
}

/// Runs the body of a function that NVTX calls. After an internal error nothing is recorded any more.
#[inline]
pub(super) fn guarded<R>(function: &'static str, neutral: R, body: impl FnOnce() -> R) -> R {
    if SWITCH.is_off() {
        return neutral;
    }
    SWITCH.run(function, body).unwrap_or(neutral)
}
