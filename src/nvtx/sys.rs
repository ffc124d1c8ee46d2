//! The C types of NVTX 3 (`nvToolsExt.h`, `nvtxTypes.h`, `nvToolsExtPayload.h`, `nvtxExtTypes.h`).

use std::ffi::{c_char, c_int, c_void};

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
    /// A string, or a handle that [`super::strings`] made.
    pub message: *const c_void,
}

const _: () = assert!(size_of::<EventAttributes>() == 48);

pub(super) mod message_type {
    pub(in super::super) const ASCII: i32 = 1;
    pub(in super::super) const UNICODE: i32 = 2;
    pub(in super::super) const REGISTERED: i32 = 3;
}

pub(super) mod payload_type {
    pub(in super::super) const UNSIGNED_INT64: i32 = 1;
    pub(in super::super) const INT64: i32 = 2;
    pub(in super::super) const DOUBLE: i32 = 3;
    pub(in super::super) const UNSIGNED_INT32: i32 = 4;
    pub(in super::super) const INT32: i32 = 5;
    pub(in super::super) const FLOAT: i32 = 6;
    pub(in super::super) const EXTENDED: i32 = 0xdfbd_0009_u32.cast_signed();
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
