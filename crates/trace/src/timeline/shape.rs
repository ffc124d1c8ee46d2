//! Which part of an operation is drawn, and what the parts are like.

/// Which part of an operation an interval shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// `init`; `operation` is a place in the comm calls.
    CommInit,
    /// `finalize`; `operation` is a place in the comm calls.
    CommFinalize,
    /// A call that NCCL makes into sends and receives; `operation` is the place of the first of their calls.
    ComposedCall,
    /// Such a collective itself; `operation` is the first of its activities.
    Composite,
    /// An API call or launch, as the calling thread saw it.
    Call,
    /// `ncclGroupStart` inside a GroupApi.
    GroupStart,
    /// `ncclGroupEnd` inside a GroupApi.
    GroupEnd,
    /// The enqueueing of a Coll, P2p or CeColl.
    Enqueue,
    /// The Coll, P2p or CeColl itself; `operation` is a place in the activities.
    Operation,
    /// A proxy operation.
    Net,
    /// The beginning of a proxy operation, before it makes progress.
    Queued,
    /// A kernel channel.
    Channel,
    /// A proxy step of which NCCL told no state. Phases of one step are in the order they come in.
    Step,
    /// A step to send: the GPU has not filled the buffer yet.
    SendGpuWait,
    /// The data is there; the peer gives no credit yet.
    SendPeerWait,
    /// The network is sending.
    SendWait,
    /// A step to receive: the network has not delivered yet.
    RecvWait,
    /// The data is being flushed to the GPU's memory.
    RecvFlushWait,
    /// The GPU has not consumed the buffer yet.
    RecvGpuWait,
    /// A proxy thread ran out of work.
    ProxyIdle,
    /// It has work again.
    ProxyActive,
    /// It sleeps until there are operations.
    ProxySleep,
    /// It was woken up.
    ProxyWakeup,
    /// It takes operations.
    ProxyAppend,
    /// A phase of a kernel channel.
    Phase,
    /// What a network plugin does for a step that sends.
    PluginSend,
    /// The same for one that receives.
    PluginReceive,
    /// A kernel or a copy; `operation` is a place in [`crate::links::gpu_work::GpuWork::all`].
    Work,
}

/// Some shapes: bit n is shape n. Each event asks what its shape is like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shapes(u32);

impl Shapes {
    const fn of(shapes: &[Shape]) -> Self {
        let mut bits = 0;
        let mut left = shapes;
        while let [first, others @ ..] = left {
            bits |= 1 << *first as u32;
            left = others;
        }
        Self(bits)
    }

    const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Adds one; gives whether it was not there.
    pub(crate) const fn insert(&mut self, shape: Shape) -> bool {
        let is_new = !self.has(shape);
        self.0 |= 1 << shape as u32;
        is_new
    }

    pub(crate) const fn has(self, shape: Shape) -> bool {
        self.0 & 1 << shape as u32 != 0
    }
}

/// Proxy steps and phases of them.
pub(crate) const STEPS: Shapes = Shapes::of(&[
    Shape::Step,
    Shape::SendGpuWait,
    Shape::SendPeerWait,
    Shape::SendWait,
    Shape::RecvWait,
    Shape::RecvFlushWait,
    Shape::RecvGpuWait,
]);

/// States of proxy threads.
pub(crate) const CONTROLS: Shapes = Shapes::of(&[
    Shape::ProxyIdle,
    Shape::ProxyActive,
    Shape::ProxySleep,
    Shape::ProxyWakeup,
    Shape::ProxyAppend,
]);

/// What does not stand for an operation, but for a part of one.
pub(crate) const PARTS: Shapes = STEPS.with(CONTROLS).with(Shapes::of(&[
    Shape::Queued,
    Shape::GroupStart,
    Shape::GroupEnd,
    Shape::Phase,
]));

/// Those that say alone which region it is.
pub(crate) const FIXED: Shapes = STEPS.with(CONTROLS).with(Shapes::of(&[
    Shape::CommInit,
    Shape::CommFinalize,
    Shape::GroupStart,
    Shape::GroupEnd,
    Shape::Queued,
    Shape::Channel,
]));

/// Those of which the operation behind says it, by its kind and detail.
pub(crate) const TOLD: Shapes =
    Shapes::of(&[Shape::Call, Shape::Enqueue, Shape::Operation, Shape::Net]);
