//! Converts CUPTI's records, by fixed offsets.

use cupti_sys::constants::{
    EXTERNAL_CUSTOM2, KIND_CONCURRENT_KERNEL, KIND_DRIVER, KIND_EXTERNAL_CORRELATION, KIND_MEMCPY, KIND_MEMCPY2,
};
use cupti_sys::record::{self, api, copy, external, kernel, peer_copy};

use nccl_events::gpu::{Copy, Kernel};

/// The address of a kernel's name in CUPTI's memory; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameAddress(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A call of CUDA was made under an id of the plugin.
    External {
        correlation: u32,
        id: u64,
    },
    DriverCall {
        correlation: u32,
        cbid: u32,
    },
    Kernel(Kernel<NameAddress>),
    Copy(Copy),
    Other,
}

/// Decodes a record; `None` if it ends before its fields.
pub(super) fn decode(bytes: &[u8]) -> Option<Decoded> {
    Some(match record::KIND.of(bytes)? {
        KIND_EXTERNAL_CORRELATION => {
            if external::EXTERNAL_KIND.of(bytes)? != EXTERNAL_CUSTOM2 {
                return Some(Decoded::Other);
            }
            Decoded::External { correlation: external::CORRELATION.of(bytes)?, id: external::EXTERNAL.of(bytes)? }
        }
        KIND_DRIVER => Decoded::DriverCall { correlation: api::CORRELATION.of(bytes)?, cbid: api::CBID.of(bytes)? },
        KIND_CONCURRENT_KERNEL => Decoded::Kernel(kernel_of(bytes)?),
        KIND_MEMCPY => Decoded::Copy(copy_of(bytes)?),
        KIND_MEMCPY2 => Decoded::Copy(peer_copy_of(bytes)?),
        _ => Decoded::Other,
    })
}

fn kernel_of(bytes: &[u8]) -> Option<Kernel<NameAddress>> {
    Some(Kernel {
        correlation: kernel::CORRELATION.of(bytes)?,
        device: kernel::DEVICE.of(bytes)?,
        context: kernel::CONTEXT.of(bytes)?,
        stream: kernel::STREAM.of(bytes)?,
        start_ns: kernel::START.of(bytes)?,
        end_ns: kernel::END.of(bytes)?,
        grid: [kernel::GRID_X.of(bytes)?, kernel::GRID_Y.of(bytes)?, kernel::GRID_Z.of(bytes)?],
        block: [kernel::BLOCK_X.of(bytes)?, kernel::BLOCK_Y.of(bytes)?, kernel::BLOCK_Z.of(bytes)?],
        static_shared_bytes: kernel::STATIC_SHARED_BYTES.of(bytes)?,
        dynamic_shared_bytes: kernel::DYNAMIC_SHARED_BYTES.of(bytes)?,
        registers_per_thread: kernel::REGISTERS_PER_THREAD.of(bytes)?,
        graph: kernel::GRAPH.of(bytes)?,
        graph_node: kernel::GRAPH_NODE.of(bytes)?,
        // From 13.4 on records have this field. `bytes` ends with the record.
        source_graph_node: kernel::SOURCE_GRAPH_NODE.of(bytes).unwrap_or(0),
        name: NameAddress(kernel::NAME.of(bytes)?),
    })
}

/// A copy, by a kind of record that has the usual fields.
macro_rules! copy {
    ($record:ident, $bytes:ident, $count:expr, $source_device:expr, $destination_device:expr) => {
        Copy {
            correlation: $record::CORRELATION.of($bytes)?,
            device: $record::DEVICE.of($bytes)?,
            context: $record::CONTEXT.of($bytes)?,
            stream: $record::STREAM.of($bytes)?,
            start_ns: $record::START.of($bytes)?,
            end_ns: $record::END.of($bytes)?,
            bytes: $record::BYTES.of($bytes)?,
            kind: $record::COPY_KIND.of($bytes)?,
            source_kind: $record::SOURCE_KIND.of($bytes)?,
            destination_kind: $record::DESTINATION_KIND.of($bytes)?,
            count: $count,
            graph_node: $record::GRAPH_NODE.of($bytes)?,
            source_device: $source_device,
            destination_device: $destination_device,
        }
    };
}

fn copy_of(bytes: &[u8]) -> Option<Copy> {
    let device = copy::DEVICE.of(bytes)?;
    // Up to 12.7 a record has no count, and is one copy.
    let count = u32::try_from(copy::COUNT.of(bytes).unwrap_or(1).max(1)).unwrap_or(u32::MAX);
    Some(copy!(copy, bytes, count, device, device))
}

fn peer_copy_of(bytes: &[u8]) -> Option<Copy> {
    let [source, destination] = [peer_copy::SOURCE_DEVICE, peer_copy::DESTINATION_DEVICE].map(|field| field.of(bytes));
    Some(copy!(peer_copy, bytes, 1, source?, destination?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of this kind, whose bytes are their own offsets.
    fn record(kind: u32, size: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes
    }

    fn word(at: usize) -> u32 {
        let byte = |at: usize| u8::try_from(at % 251).unwrap();
        u32::from_ne_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)])
    }

    fn long(at: usize) -> u64 {
        u64::from(word(at)) | u64::from(word(at + 4)) << 32
    }

    #[test]
    fn ids_of_other_tools_are_ignored() {
        let mut bytes = record(KIND_EXTERNAL_CORRELATION, 24);
        bytes[4..8].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(decode(&bytes), Some(Decoded::Other));
        bytes[4..8].copy_from_slice(&5_u32.to_ne_bytes());
        let ours = Decoded::External { correlation: word(16), id: long(8) };
        assert_eq!(decode(&bytes), Some(ours));
    }

    #[test]
    fn a_record_that_is_cut_short_is_rejected() {
        for (kind, size) in [
            (KIND_CONCURRENT_KERNEL, 200),
            (KIND_MEMCPY, 88),
            (KIND_MEMCPY2, 96),
            (KIND_EXTERNAL_CORRELATION, 24),
            (KIND_DRIVER, 40),
        ] {
            let bytes = {
                let mut bytes = record(kind, size);
                bytes[4..8].copy_from_slice(&5_u32.to_ne_bytes());
                bytes
            };
            assert!(decode(&bytes).is_some());
            for cut in 0..16 {
                assert_eq!(decode(&bytes[..cut]), None, "kind {kind}, {cut} bytes");
            }
        }
    }
}
