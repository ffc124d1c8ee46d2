//! Data from network plugins.

/// A network plugin's data about one of its events, by plugin id; copied in the callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of NCCL's net_ib and net_socket descriptors")]
pub enum NetData {
    /// An id whose layout is unknown, or NULL data: only the id is kept.
    #[default]
    Opaque,
    IbQueuePair {
        device: i32,
        work_request: u64,
        opcode: i32,
        queue_pair: i32,
        bytes: u64,
    },
    Socket {
        descriptor: i32,
        operation: i32,
        bytes: u64,
    },
}
