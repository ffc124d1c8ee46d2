//! What the stand-in for a GPU says to the double of CUPTI.

/// `struct fake_cupti_work`: what runs on the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    pub correlation: u32,
    pub device: u32,
    pub context: u32,
    /// CUPTI's number of the stream.
    pub stream: u32,
    /// Address of its mangled name, which the double of CUPTI keeps for ever.
    pub name: u64,
    /// The executable graph that it is part of, else 0.
    pub graph: u32,
    pub source_graph: u32,
    pub node: u64,
    pub source_node: u64,
    /// `CUpti_ActivityMemcpyKind`; 0: a kernel.
    pub copy_kind: u32,
    /// Who launched it; 0: the calling thread.
    pub thread: i32,
    pub bytes: u64,
    /// When it began, in nanoseconds of the wall clock.
    pub start_ns: u64,
}
