//! Offsets of the fields of activity records, which are equal in all releases from CUDA 11.8 to 13.5.
//!
//! A record is a slice of exactly the bytes that CUPTI returned for it, and a field beyond its end is absent. So a
//! field that only later releases have is never read from the next record.

use std::marker::PhantomData;

/// A field of a record: its offset and type.
#[derive(Debug)]
pub struct Field<T> {
    offset: usize,
    is: PhantomData<T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> Field<T> {
    const fn at(offset: usize) -> Self {
        Self { offset, is: PhantomData }
    }

    /// Offset in bytes from the start of the record.
    pub const fn offset(self) -> usize {
        self.offset
    }
}

macro_rules! readable {
    ($($type:ty),*) => {
        $(impl Field<$type> {
            /// The field's value in this record; `None` if the record ends before the field.
            #[inline]
            pub fn read(self, record: &[u8]) -> Option<$type> {
                Some(<$type>::from_ne_bytes(*record.get(self.offset..)?.first_chunk()?))
            }
        })*
    };
}

readable!(u8, u16, u32, u64);

/// The layout of a kind of record, for comparison with headers.
#[derive(Debug)]
pub struct Layout {
    /// The module in this file that defines the fields.
    pub record: &'static str,
    /// The structure's name in the headers, without the version number, which grows with the structure.
    pub c_name: &'static str,
    /// The fields: name in the headers, offset and size in bytes.
    pub fields: &'static [(&'static str, usize, usize)],
}

macro_rules! records {
    ($($(#[$doc:meta])* $module:ident $c_struct:literal {
        $($name:ident: $type:ty = $offset:literal $c_name:literal,)*
    })*) => {
        $($(#[$doc])*
        #[expect(missing_docs, reason = "CUPTI's fields, by CUPTI's names")]
        pub mod $module {
            use super::Field;
            $(pub const $name: Field<$type> = Field::at($offset);)*
        })*

        /// All kinds of records.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            record: stringify!($module),
            c_name: $c_struct,
            fields: &[$(($c_name, $offset, size_of::<$type>())),*],
        }),*];
    };
}

/// The first field of every record: its kind.
pub const KIND: Field<u32> = Field::at(0);

records! {
    /// Kinds 10 and 3: a kernel. `NAME` is the address of a string owned by CUPTI, or 0.
    kernel "CUpti_ActivityKernel" {
        REGISTERS_PER_THREAD: u16 = 6 "registersPerThread",
        START: u64 = 16 "start",
        END: u64 = 24 "end",
        DEVICE: u32 = 40 "deviceId",
        CONTEXT: u32 = 44 "contextId",
        STREAM: u32 = 48 "streamId",
        GRID_X: u32 = 52 "gridX",
        GRID_Y: u32 = 56 "gridY",
        GRID_Z: u32 = 60 "gridZ",
        BLOCK_X: u32 = 64 "blockX",
        BLOCK_Y: u32 = 68 "blockY",
        BLOCK_Z: u32 = 72 "blockZ",
        STATIC_SHARED_BYTES: u32 = 76 "staticSharedMemory",
        DYNAMIC_SHARED_BYTES: u32 = 80 "dynamicSharedMemory",
        CORRELATION: u32 = 92 "correlationId",
        NAME: u64 = 104 "name",
        GRAPH_NODE: u64 = 144 "graphNodeId",
        GRAPH: u32 = 156 "graphId",
        SOURCE_GRAPH_NODE: u64 = 240 "sourceGraphNodeId",
    }
    /// Kind 39: an external id.
    external "CUpti_ActivityExternalCorrelation" {
        EXTERNAL_KIND: u32 = 4 "externalKind",
        EXTERNAL: u64 = 8 "externalId",
        CORRELATION: u32 = 16 "correlationId",
    }
    /// Kinds 4 and 5: a call of a CUDA function.
    api "CUpti_ActivityAPI" {
        CBID: u32 = 4 "cbid",
        CORRELATION: u32 = 32 "correlationId",
    }
    /// Kind 1: a copy.
    copy "CUpti_ActivityMemcpy" {
        COPY_KIND: u8 = 4 "copyKind",
        SOURCE_KIND: u8 = 5 "srcKind",
        DESTINATION_KIND: u8 = 6 "dstKind",
        BYTES: u64 = 8 "bytes",
        START: u64 = 16 "start",
        END: u64 = 24 "end",
        DEVICE: u32 = 32 "deviceId",
        CONTEXT: u32 = 36 "contextId",
        STREAM: u32 = 40 "streamId",
        CORRELATION: u32 = 44 "correlationId",
        GRAPH_NODE: u64 = 64 "graphNodeId",
        COUNT: u64 = 88 "copyCount",
    }
    /// Kind 22: a copy between devices. From the stream on, offsets differ from those in [`copy`].
    peer_copy "CUpti_ActivityMemcpyPtoP" {
        COPY_KIND: u8 = 4 "copyKind",
        SOURCE_KIND: u8 = 5 "srcKind",
        DESTINATION_KIND: u8 = 6 "dstKind",
        BYTES: u64 = 8 "bytes",
        START: u64 = 16 "start",
        END: u64 = 24 "end",
        DEVICE: u32 = 32 "deviceId",
        CONTEXT: u32 = 36 "contextId",
        STREAM: u32 = 40 "streamId",
        SOURCE_DEVICE: u32 = 44 "srcDeviceId",
        DESTINATION_DEVICE: u32 = 52 "dstDeviceId",
        CORRELATION: u32 = 60 "correlationId",
        GRAPH_NODE: u64 = 72 "graphNodeId",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_behind_the_end_is_not_there() {
        let mut record = vec![0; 248];
        record[240..].copy_from_slice(&7_u64.to_ne_bytes());
        assert_eq!(kernel::SOURCE_GRAPH_NODE.read(&record), Some(7));
        assert_eq!(kernel::SOURCE_GRAPH_NODE.read(&record[..247]), None);
        assert_eq!(kernel::SOURCE_GRAPH_NODE.read(&record[..200]), None);
        assert_eq!(KIND.read(&[]), None);
    }
}
