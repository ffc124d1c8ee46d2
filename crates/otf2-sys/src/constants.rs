//! Constants that bindgen skips because the header defines them with casts.
//!
//! `tests/bindings.rs` compiles the header and compares all of them.

/// "No such definition" in a 32-bit reference: string, region, attribute, group, communicator and so on.
pub const OTF2_UNDEFINED_UINT32: u32 = u32::MAX;
/// "No such value" in a 64-bit field.
pub const OTF2_UNDEFINED_UINT64: u64 = u64::MAX;
/// "No such value" in an 8-bit field.
pub const OTF2_UNDEFINED_UINT8: u8 = u8::MAX;
/// Smallest chunk libotf2 accepts, in bytes.
pub const OTF2_CHUNK_SIZE_MIN: u64 = 256 * 1024;
/// Largest chunk libotf2 accepts, in bytes.
pub const OTF2_CHUNK_SIZE_MAX: u64 = 16 * 1024 * 1024;
/// The root of a collective operation without a root.
pub const OTF2_COLLECTIVE_ROOT_NONE: u32 = u32::MAX;
