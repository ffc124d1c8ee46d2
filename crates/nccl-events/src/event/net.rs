//! What network plugins say.

/// What a net plugin says about one of its own events; copied in the callback, by plugin id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of NCCL's net_ib and net_socket descriptors")]
pub enum NetData {
    /// An id whose layout we do not know, or NULL data: only the id is kept.
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
