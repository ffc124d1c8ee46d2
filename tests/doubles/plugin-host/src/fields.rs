//! The fields of an event without versions: everything that any descriptor of any version can hold.
//!
//! One flat structure, because a script may set any field of any kind; [`crate::descriptor`] takes what a
//! kind and a version have. The default of every field is what NCCL leaves in a descriptor that it does
//! not fill: zero or NULL.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::constants;

/// A string that lives as long as the process, as the strings in NCCL's descriptors do, or NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text(Option<&'static CStr>);

impl Text {
    /// NULL.
    pub const NULL: Self = Self(None);

    /// A literal.
    #[must_use]
    pub const fn literal(text: &'static CStr) -> Self {
        Self(Some(text))
    }

    /// Copies a string for the rest of the process's life; cut at a NUL byte.
    #[must_use]
    pub fn leak(text: &str) -> Self {
        Self(constants::keep(text))
    }

    /// What goes into a descriptor.
    #[must_use]
    pub const fn as_ptr(self) -> *const c_char {
        match self.0 {
            Some(text) => text.as_ptr(),
            None => ptr::null(),
        }
    }

    /// The string, if it is not NULL.
    #[must_use]
    pub const fn as_cstr(self) -> Option<&'static CStr> {
        self.0
    }

    /// The text; empty for NULL or for bytes that are not UTF-8.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.and_then(|text| text.to_str().ok()).unwrap_or("")
    }
}

/// A field takes its value from text.
trait FromText: Sized {
    fn from_text(text: &str) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl FromText for $number {
            fn from_text(text: &str) -> Option<Self> {
                match text.strip_prefix("0x") {
                    Some(digits) => Self::from_str_radix(digits, 16).ok(),
                    None => text.parse().ok(),
                }
            }
        }
    )*};
}
numbers!(u8, u32, i32, u64, i64);

impl FromText for bool {
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        }
    }
}

impl FromText for Text {
    fn from_text(text: &str) -> Option<Self> {
        Some(if text == "NULL" {
            Self::NULL
        } else {
            Self::leak(text)
        })
    }
}

/// Parses a number, decimal or hexadecimal with `0x`.
#[must_use]
pub fn parse_number(text: &str) -> Option<u64> {
    u64::from_text(text)
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// Every field of every kind; see the module.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Fields {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Fields {
            /// As many bytes as a plugin is given for a descriptor, whatever its version: more than the largest has.
            pub const MOST_BYTES: usize = 192;

            /// The fields' names, as [`Self::set`] takes them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Sets a field from text.
            ///
            /// # Errors
            /// When there is no such field, or the text is not a value of its type.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), FieldError> {
                match name {
                    $(stringify!($name) => {
                        self.$name = FromText::from_text(text).ok_or_else(|| FieldError::Value {
                            name: stringify!($name),
                            kind: stringify!($kind),
                            text: text.to_owned(),
                        })?;
                    })*
                    _ => return Err(FieldError::Unknown(name.to_owned())),
                }
                Ok(())
            }
        }
    };
}

fields! {
    /// Function name, `AllReduce`. A number in v1.
    func: Text,
    /// Elements, not bytes.
    count: u64,
    /// `ncclFloat32` …. A number in v1.
    datatype: Text,
    /// Root rank.
    root: i32,
    /// The CUDA stream's address.
    stream: u64,
    /// Whether a graph captures the call.
    graph_captured: bool,
    /// v7: the user's tag.
    user_tag: u64,
    /// GroupApi: depth of the group.
    depth: i32,
    /// Sequence number of the function on the communicator.
    sequence: u64,
    /// Device address of the send buffer.
    send_buffer: u64,
    /// Device address of the receive buffer.
    recv_buffer: u64,
    /// P2p: device address.
    buffer: u64,
    /// Number of channels.
    channels: u8,
    /// Number of warps.
    warps: u8,
    /// `RING` …. A number in v1.
    algorithm: Text,
    /// `SIMPLE` …. A number in v1.
    protocol: Text,
    /// v5 and later: raw handle of the Group event; commands overwrite it with a handle by name.
    parent_group: u64,
    /// v7.
    kernel_variant: Text,
    /// v7.
    is_symmetric: bool,
    /// P2p and ProxyOp: the peer's rank.
    peer: i32,
    /// ProxyOp: the process that asked for it.
    pid: i32,
    /// ProxyOp, KernelCh, KernelPhase: the channel.
    channel: u8,
    /// ProxyOp: number of steps.
    steps: i32,
    /// ProxyOp: bytes of a chunk.
    chunk_bytes: i32,
    /// ProxyOp: sends or receives.
    is_send: bool,
    /// ProxyStep: which step.
    step: i32,
    /// KernelCh and KernelPhase: the GPU's globaltimer in ns.
    gpu_ns: u64,
    /// NetPlugin: plugin and version.
    net_id: i64,
    /// NetPlugin: address of its data.
    net_data: u64,
    /// KernelPhase: which.
    phase: u8,
    /// KernelPhase: its name.
    phase_name: Text,
    /// CeColl.
    sync_strategy: Text,
    /// CeColl.
    intra_batch_sync: bool,
    /// CeColl.
    batch_size: u32,
    /// CeColl.
    batches: u32,
    /// CeColl: sequence among the copy-engine collectives.
    ce_sequence: u32,
    /// CeSync: whether it is the closing one.
    is_complete: bool,
    /// CeSync: number of ranks.
    ranks: i32,
    /// CeBatch: number of operations.
    operations: i32,
    /// CeBatch: total bytes.
    bytes: u64,
    /// CeBatch.
    intra_sync: bool,
    /// v1 to v3: name of the communicator.
    comm_name: Text,
    /// v1 to v3: hash of the communicator.
    comm_hash: u64,
    /// v1: reduction operator.
    op: u32,
    /// v1 and v2.
    traffic_bytes: u64,
    /// v1.
    is_collnet: i32,
    /// v1.
    is_nvls: i32,
}

/// A field could not be set.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// No such field.
    #[error("there is no field {0:?}; the fields are: {names}", names = Fields::NAMES.join(", "))]
    Unknown(String),
    /// Not a value of the field's type.
    #[error(
        "{text:?} is no value for the field {name} ({kind}; numbers are decimal or 0x…, strings may be NULL)"
    )]
    Value {
        /// The field.
        name: &'static str,
        /// Its type.
        kind: &'static str,
        /// What was given.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_by_name() {
        let mut fields = Fields::default();
        fields.set("count", "0x10").unwrap();
        fields.set("func", "AllReduce").unwrap();
        fields.set("datatype", "NULL").unwrap();
        fields.set("peer", "-1").unwrap();
        fields.set("is_send", "1").unwrap();
        assert_eq!(
            (fields.count, fields.func.as_str(), fields.peer),
            (16, "AllReduce", -1)
        );
        assert!(fields.datatype.as_ptr().is_null() && fields.is_send);
        assert!(
            fields
                .set("nothing", "1")
                .unwrap_err()
                .to_string()
                .contains("there is no field")
        );
        assert!(
            fields
                .set("channel", "256")
                .unwrap_err()
                .to_string()
                .contains("u8")
        );
    }
}
