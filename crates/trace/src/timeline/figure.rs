//! What is drawn: one region instance of one operation.

use crate::links::composites::Pattern;
use crate::links::correlate::Correlation;
use crate::links::gpu_work::What;
use crate::tables::assembly::{Assembly, Operation};
use crate::tables::place::index;
pub use crate::timeline::shape::Shape;
use crate::timeline::shape::{CONTROLS, FIXED, PARTS, STEPS, TOLD};
use crate::vocabulary::RegionClass;
use journal::format::record::Symbol;
use nccl_events::Body;
use nccl_events::event;
use nccl_events::{Kind, NetData};

// [`Figure::order`] keeps five bits for it.
const _: () = assert!((Shape::Work as u8) < 1 << 5);

/// One region instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// A place in the table that the shape names; the operations where it names none.
    pub operation: u32,
    /// What of it.
    pub shape: Shape,
    /// Of parts that follow each other: whether it is the last, where what is known of their end goes.
    pub is_last: bool,
}

impl Figure {
    /// What is no part of several.
    #[must_use]
    pub const fn of(operation: u32, shape: Shape) -> Self {
        Self {
            operation,
            shape,
            is_last: false,
        }
    }

    /// Whether it stands for the operation, not for a part of it.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        !PARTS.has(self.shape)
    }

    /// Whether it is a proxy step or a phase of one.
    #[must_use]
    pub const fn is_step(&self) -> bool {
        STEPS.has(self.shape)
    }

    /// Whether its shape alone says which region it is of.
    #[must_use]
    pub const fn has_fixed_region(&self) -> bool {
        FIXED.has(self.shape)
    }

    /// Whether the operation behind it says, by its kind and detail, which region it is of.
    #[must_use]
    pub const fn is_told_by_operation(&self) -> bool {
        TOLD.has(self.shape)
    }

    /// Whether it is a state of a proxy thread.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        CONTROLS.has(self.shape)
    }

    /// Breaks ties of equal start times: what was recorded first is around what came later, and what is made of
    /// others around them.
    #[must_use]
    pub const fn order(&self) -> u64 {
        match self.shape {
            // An init or finalize is around everything its thread does meanwhile.
            Shape::CommInit | Shape::CommFinalize => self.operation as u64,
            shape => 1 << 40 | (self.operation as u64) << 5 | shape as u64,
        }
    }
}

/// A region by what it stands for; its name comes from the tables of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionKey {
    /// Its class.
    pub class: RegionClass,
    /// The kind of event that it shows, if it shows one.
    pub kind: Option<Kind>,
    /// What it is called.
    pub name: RegionName,
}

/// A region's name before strings come into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionName {
    /// As it is.
    Fixed(&'static str),
    /// `nccl` and the function NCCL named, then a suffix.
    Func(Symbol, &'static str),
    /// As NCCL names it.
    Text(Symbol),
    /// A collective of sends and receives.
    Composite(Pattern),
    /// What a network plugin that is not known does, by the plugin's id.
    Plugin(i64),
    /// A C++ function, by its mangled name.
    Mangled(Symbol),
    /// A copy, by CUPTI's number of its kind.
    Copy(u8),
}

/// A region in two words, to find it fast. Different regions have different ones, but one region may have several:
/// a fixed name is told by where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RegionCode(u64, u64);

impl RegionKey {
    /// Its code.
    pub(crate) fn code(self) -> RegionCode {
        let text = |text: &'static str| (text.len() as u64, text.as_ptr().addr() as u64);
        let (variant, detail, (length, word)) = match self.name {
            RegionName::Fixed(name) => (0, 0, text(name)),
            RegionName::Func(symbol, suffix) => (1, symbol.0, text(suffix)),
            RegionName::Text(symbol) => (2, symbol.0, (0, 0)),
            RegionName::Composite(pattern) => (3, pattern as u32, (0, 0)),
            RegionName::Plugin(id) => (4, 0, (0, id.cast_unsigned())),
            RegionName::Mangled(symbol) => (5, symbol.0, (0, 0)),
            RegionName::Copy(kind) => (6, kind.into(), (0, 0)),
        };
        let class = self.class as u64;
        let kind = self.kind.map_or(0, |kind| kind as u64 + 1);
        RegionCode(
            u64::from(detail) << 32 | length << 16 | class << 8 | kind << 3 | variant,
            word,
        )
    }
}

/// What tells a region: figures that are alike in this are of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Told {
    shape: Shape,
    kind: Kind,
    /// See [`Operation::detail`].
    detail: u32,
}

impl Told {
    /// How many numbers [`Self::place`] gives.
    pub(crate) const PLACES: usize = (Shape::Work as usize + 1) * Kind::COUNT;

    /// What an operation tells of its figures.
    #[inline]
    pub(crate) fn by(shape: Shape, operation: &Operation) -> Self {
        Self {
            shape,
            kind: operation.kind(),
            detail: operation.detail(),
        }
    }

    /// A number for shape and kind.
    #[inline]
    pub(crate) const fn place(self) -> usize {
        self.shape as usize * Kind::COUNT + self.kind as usize
    }
}

/// What a network plugin does, where it is known which it is.
fn plugin(fields: Option<&Body<Symbol>>, sends: bool) -> RegionName {
    let Some(&Body::NetPlugin(event::NetPlugin { id, data })) = fields else {
        return RegionName::Plugin(0);
    };
    match (data, sends) {
        (NetData::IbQueuePair { .. }, true) => RegionName::Fixed("ibSend"),
        (NetData::IbQueuePair { .. }, false) => RegionName::Fixed("ibRecv"),
        (NetData::Socket { .. }, true) => RegionName::Fixed("socketSend"),
        (NetData::Socket { .. }, false) => RegionName::Fixed("socketRecv"),
        (NetData::Opaque, _) => RegionName::Plugin(id),
    }
}

/// The function of a collective or point-to-point event.
#[must_use]
pub fn func(fields: &Body<Symbol>) -> Symbol {
    match *fields {
        Body::Coll(event::Coll { func, .. })
        | Body::P2p(event::P2p { func, .. })
        | Body::CollApi(event::CollApi { func, .. })
        | Body::P2pApi(event::P2pApi { func, .. })
        | Body::CeColl(event::CeColl { func, .. }) => func,
        _ => Symbol::NONE,
    }
}

impl Figure {
    /// The region it is an instance of. `fields` are of the operation behind it, if there is one.
    #[must_use]
    pub fn region(&self, fields: Option<&Body<Symbol>>, correlation: &Correlation) -> RegionKey {
        let composites = &correlation.composites;
        let named = fields.map_or(Symbol::NONE, func);
        let composite = |pattern: Option<Pattern>| {
            pattern.map_or(RegionName::Func(named, ""), RegionName::Composite)
        };
        let (class, name) = match (self.shape, fields) {
            (Shape::ComposedCall, _) => {
                let call = composites.call_begun_by(self.operation);
                (RegionClass::Api, composite(call.map(|call| call.pattern)))
            }
            (Shape::Composite, _) => {
                let of = composites.of_member(self.operation);
                (
                    RegionClass::Operation,
                    composite(of.map(|(_, call)| call.pattern)),
                )
            }
            (Shape::CommInit, _) => (RegionClass::Api, RegionName::Fixed("ncclCommInit")),
            (Shape::CommFinalize, _) => (RegionClass::Api, RegionName::Fixed("ncclCommFinalize")),
            (Shape::GroupStart, _) => (RegionClass::Api, RegionName::Fixed("ncclGroupStart")),
            (Shape::GroupEnd, _) => (RegionClass::Api, RegionName::Fixed("ncclGroupEnd")),
            (Shape::Enqueue, Some(Body::CeColl(event::CeColl { .. }))) => (
                RegionClass::Enqueue,
                RegionName::Func(named, " (CE) enqueue"),
            ),
            (Shape::Enqueue, _) => (RegionClass::Enqueue, RegionName::Func(named, " enqueue")),
            (Shape::Operation, Some(Body::CeColl(event::CeColl { .. }))) => {
                (RegionClass::Operation, RegionName::Func(named, " (CE)"))
            }
            (Shape::Operation, _) => (RegionClass::Operation, RegionName::Func(named, "")),
            (Shape::Net, Some(Body::ProxyOp(event::ProxyOp { is_send: false, .. }))) => {
                (RegionClass::Network, RegionName::Fixed("netRecv"))
            }
            (Shape::Net, _) => (RegionClass::Network, RegionName::Fixed("netSend")),
            (Shape::Queued, _) => (RegionClass::Network, RegionName::Fixed("queued")),
            (Shape::Channel, _) => (RegionClass::Channel, RegionName::Fixed("ncclKernelChannel")),
            (Shape::Step, _) => (RegionClass::Network, RegionName::Fixed("ProxyStep")),
            (Shape::SendGpuWait, _) => (RegionClass::Network, RegionName::Fixed("SendGPUWait")),
            (Shape::SendPeerWait, _) => (RegionClass::Network, RegionName::Fixed("SendPeerWait")),
            (Shape::SendWait, _) => (RegionClass::Network, RegionName::Fixed("SendWait")),
            (Shape::RecvWait, _) => (RegionClass::Network, RegionName::Fixed("RecvWait")),
            (Shape::RecvFlushWait, _) => (RegionClass::Network, RegionName::Fixed("RecvFlushWait")),
            (Shape::RecvGpuWait, _) => (RegionClass::Network, RegionName::Fixed("RecvGPUWait")),
            (Shape::ProxyIdle, _) => (RegionClass::Proxy, RegionName::Fixed("ProxyIdle")),
            (Shape::ProxyActive, _) => (RegionClass::Proxy, RegionName::Fixed("ProxyActive")),
            (Shape::ProxySleep, _) => (RegionClass::Proxy, RegionName::Fixed("ProxySleep")),
            (Shape::ProxyWakeup, _) => (RegionClass::Proxy, RegionName::Fixed("ProxyWakeup")),
            (Shape::ProxyAppend, _) => (RegionClass::Proxy, RegionName::Fixed("ProxyAppend")),
            (Shape::Call, Some(Body::GroupApi(event::GroupApi { .. }))) => {
                (RegionClass::Api, RegionName::Fixed("ncclGroup"))
            }
            (Shape::PluginSend | Shape::PluginReceive, fields) => {
                let sends = self.shape == Shape::PluginSend;
                (RegionClass::Network, plugin(fields, sends))
            }
            (Shape::Phase, Some(&Body::KernelPhase(event::KernelPhase { name, .. }))) => {
                (RegionClass::Channel, RegionName::Text(name))
            }
            (Shape::Phase, _) => (RegionClass::Channel, RegionName::Text(Symbol::NONE)),
            (Shape::Work, _) => match correlation.gpu.get(self.operation).map(|work| work.what) {
                Some(What::Copy(copy)) => (RegionClass::Copy, RegionName::Copy(copy.kind)),
                Some(What::Kernel(kernel)) => {
                    (RegionClass::Kernel, RegionName::Mangled(kernel.name))
                }
                None => (RegionClass::Kernel, RegionName::Mangled(Symbol::NONE)),
            },
            (Shape::Call, Some(Body::CeSync(event::CeSync { .. }))) => {
                (RegionClass::Enqueue, RegionName::Fixed("CeSync"))
            }
            (Shape::Call, Some(Body::CeBatch(event::CeBatch { .. }))) => {
                (RegionClass::Enqueue, RegionName::Fixed("CeBatch"))
            }
            (Shape::Call, Some(Body::Group(event::Group {}))) => {
                (RegionClass::Enqueue, RegionName::Fixed("ncclLaunchPlan"))
            }
            (Shape::Call, Some(Body::KernelLaunch(event::KernelLaunch { .. }))) => {
                (RegionClass::Launch, RegionName::Fixed("ncclKernelLaunch"))
            }
            (Shape::Call, _) => (RegionClass::Api, RegionName::Func(named, "")),
        };
        let kind = self.kind(fields);
        RegionKey { class, kind, name }
    }

    /// The kind of event that its region shows. What is made of several, and parts that stand for no event, show what
    /// programs count as none or as a whole.
    fn kind(&self, fields: Option<&Body<Symbol>>) -> Option<Kind> {
        match self.shape {
            Shape::CommInit
            | Shape::CommFinalize
            | Shape::GroupStart
            | Shape::GroupEnd
            | Shape::Queued
            | Shape::Work => None,
            Shape::ComposedCall => Some(Kind::CollApi),
            Shape::Composite => Some(Kind::Coll),
            _ => fields.map(Body::kind),
        }
    }

    /// What of the operation behind it tells the region, where that does.
    #[inline]
    pub(crate) fn told(&self, assembly: &Assembly, correlation: &Correlation) -> Option<Told> {
        if !self.is_told_by_operation() {
            return None;
        }
        let at = match self.shape {
            Shape::Operation => correlation.activities.get(index(self.operation))?.operation,
            _ => self.operation,
        };
        let operation = assembly.operation(at)?;
        Some(Told::by(self.shape, operation))
    }

    /// The fields of the operation behind it.
    #[must_use]
    pub fn fields(&self, assembly: &Assembly, correlation: &Correlation) -> Option<Body<Symbol>> {
        let at = match self.shape {
            Shape::CommInit | Shape::CommFinalize | Shape::Work => return None,
            Shape::Operation | Shape::Composite => {
                correlation.activities.get(index(self.operation))?.operation
            }
            _ => self.operation,
        };
        assembly
            .operation(at)
            .map(|operation| assembly.fields_of(operation))
    }
}
