//! Decodes CUPTI's records by fixed offsets.

use cupti_sys::{
    EXTERNAL_CUSTOM2, KIND_CONCURRENT_KERNEL, KIND_DRIVER, KIND_EXTERNAL_CORRELATION, KIND_MEMCPY, KIND_MEMCPY2,
};
use cupti_sys::{api, copy, external, kernel, peer_copy};

use nccl_events::gpu::{Copy, Kernel};

/// The address of a kernel's name in CUPTI's memory; 0 if there is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameAddress(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A CUDA call was made under an id of the plugin.
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

/// Decodes a record; `None` if the record is too short for its fields.
pub(super) fn decode(bytes: &[u8]) -> Option<Decoded> {
    Some(match cupti_sys::KIND.of(bytes)? {
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
        // Records have this field from 13.4 on. `bytes` ends with the record.
        source_graph_node: kernel::SOURCE_GRAPH_NODE.of(bytes).unwrap_or(0),
        name: NameAddress(kernel::NAME.of(bytes)?),
    })
}

/// Decodes a copy from any kind of record that has the usual fields.
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
    // Up to 12.7 a record has no count and describes one copy.
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

    #[test]
    fn ids_of_other_tools_are_ignored() {
        let record = |external_kind: u32| {
            let mut bytes = [0; 24];
            for (at, word) in [(0, KIND_EXTERNAL_CORRELATION), (4, external_kind), (8, 7), (16, 9)] {
                bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
            }
            decode(&bytes)
        };
        assert_eq!(record(3), Some(Decoded::Other));
        assert_eq!(record(5), Some(Decoded::External { correlation: 9, id: 7 }));
    }
}
