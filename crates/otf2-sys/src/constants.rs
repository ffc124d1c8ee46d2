//! The constants that bindgen skips because the header spells them as casts.
//!
//! `tests/header.rs` compiles the header and compares every one of them.

/// "No such definition" in a 32-bit reference: string, region, attribute, group, communicator and so on.
pub const OTF2_UNDEFINED_UINT32: u32 = u32::MAX;
/// "No such value" in a 64-bit field.
pub const OTF2_UNDEFINED_UINT64: u64 = u64::MAX;
/// "No such value" in an 8-bit field.
pub const OTF2_UNDEFINED_UINT8: u8 = u8::MAX;
/// "No such type" in an enumeration.
pub const OTF2_UNDEFINED_TYPE: u8 = u8::MAX;
/// "No time".
pub const OTF2_UNDEFINED_TIMESTAMP: u64 = u64::MAX;
/// No string.
pub const OTF2_UNDEFINED_STRING: u32 = u32::MAX;
/// No location.
pub const OTF2_UNDEFINED_LOCATION: u64 = u64::MAX;
/// No region.
pub const OTF2_UNDEFINED_REGION: u32 = u32::MAX;
/// No communicator.
pub const OTF2_UNDEFINED_COMM: u32 = u32::MAX;
/// Smallest chunk libotf2 accepts, in bytes.
pub const OTF2_CHUNK_SIZE_MIN: u64 = 256 * 1024;
/// Largest chunk libotf2 accepts, in bytes.
pub const OTF2_CHUNK_SIZE_MAX: u64 = 16 * 1024 * 1024;
/// The root of a collective operation that has none.
pub const OTF2_COLLECTIVE_ROOT_NONE: u32 = u32::MAX;
/// The root of a collective operation is the caller, in an inter-communicator.
pub const OTF2_COLLECTIVE_ROOT_SELF: u32 = u32::MAX - 1;
/// The root is in the caller's group, in an inter-communicator.
pub const OTF2_COLLECTIVE_ROOT_THIS_GROUP: u32 = u32::MAX - 2;
