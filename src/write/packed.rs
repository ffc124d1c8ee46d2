//! The fields of an operation in little memory: those of the proxy, of which there are most, lie in the operation itself;
//! larger ones, of what was called, elsewhere.

use super::figure::func;
use super::near::bring_near;
use super::place::{index, place};
use super::room;
use crate::event::Kind;
use crate::journal::record::{Fields, Symbol};

/// Fields as they are kept.
#[derive(Clone, Debug)]
pub(super) enum Packed {
    Group,
    GroupApi {
        graph_captured: bool,
        depth: i32,
    },
    KernelLaunch {
        stream: u64,
    },
    ProxyOp {
        pid: i32,
        peer: i32,
        steps: i32,
        chunk_bytes: i32,
        channel: u8,
        is_send: bool,
    },
    ProxyStep {
        step: i32,
    },
    ProxyCtrl,
    KernelCh {
        channel: u8,
        gpu_ns: u64,
    },
    /// With what is asked for most: the fields themselves are elsewhere.
    Large {
        kind: Kind,
        func: Symbol,
        /// See [`Packed::launch_plan`].
        plan: u64,
        /// A place in [`Larger`].
        at: u32,
    },
}

const _: () = assert!(size_of::<Packed>() <= 24);

/// The fields that are too large for [`Packed`], of all operations.
#[derive(Debug, Default)]
pub(super) struct Larger(Vec<Fields>);

impl Larger {
    /// Packs fields.
    pub(super) fn pack(&mut self, fields: Fields) -> Packed {
        Packed::of(fields).unwrap_or_else(|| {
            let at = place(self.0.len());
            room::push(&mut self.0, fields);
            Packed::Large {
                kind: fields.kind(),
                func: func(&fields),
                plan: match fields {
                    Fields::Coll { parent_group, .. } | Fields::P2p { parent_group, .. } => {
                        parent_group
                    }
                    _ => 0,
                },
                at,
            }
        })
    }

    /// The fields as they were.
    #[inline]
    pub(super) fn get(&self, packed: &Packed) -> Fields {
        packed.get(self)
    }
}

impl Packed {
    /// What fits.
    fn of(fields: Fields) -> Option<Self> {
        Some(match fields {
            Fields::Group => Self::Group,
            Fields::GroupApi {
                graph_captured,
                depth,
            } => Self::GroupApi {
                graph_captured,
                depth,
            },
            Fields::KernelLaunch { stream } => Self::KernelLaunch { stream },
            Fields::ProxyOp {
                pid,
                channel,
                peer,
                steps,
                chunk_bytes,
                is_send,
            } => Self::ProxyOp {
                pid,
                peer,
                steps,
                chunk_bytes,
                channel,
                is_send,
            },
            Fields::ProxyStep { step } => Self::ProxyStep { step },
            Fields::ProxyCtrl => Self::ProxyCtrl,
            Fields::KernelCh { channel, gpu_ns } => Self::KernelCh { channel, gpu_ns },
            _ => return None,
        })
    }
}

impl Packed {
    #[inline]
    fn get(&self, larger: &Larger) -> Fields {
        match *self {
            Self::Group => Fields::Group,
            Self::GroupApi {
                graph_captured,
                depth,
            } => Fields::GroupApi {
                graph_captured,
                depth,
            },
            Self::KernelLaunch { stream } => Fields::KernelLaunch { stream },
            Self::ProxyOp {
                pid,
                peer,
                steps,
                chunk_bytes,
                channel,
                is_send,
            } => Fields::ProxyOp {
                pid,
                channel,
                peer,
                steps,
                chunk_bytes,
                is_send,
            },
            Self::ProxyStep { step } => Fields::ProxyStep { step },
            Self::ProxyCtrl => Fields::ProxyCtrl,
            Self::KernelCh { channel, gpu_ns } => Fields::KernelCh { channel, gpu_ns },
            Self::Large { at, .. } => larger.0.get(index(at)).copied().unwrap_or(Fields::Group),
        }
    }

    /// The launch plan (one kernel) of a Coll or P2p: the handle of its Group; 0 for none.
    #[inline]
    pub(super) const fn launch_plan(&self) -> u64 {
        match *self {
            Self::Large { plan, .. } => plan,
            _ => 0,
        }
    }

    /// Has the fields brought near, of an operation that is near already.
    #[inline]
    pub(super) fn bring_near(&self, larger: &Larger) {
        if let Self::Large { at, .. } = *self
            && let Some(fields) = larger.0.get(index(at))
        {
            bring_near(fields);
        }
    }

    /// What tells the region of the operation, of its enqueueing and of its call, beside its kind: the function, or the
    /// direction.
    #[inline]
    pub(super) fn detail(&self) -> u32 {
        match self {
            Self::ProxyOp { is_send, .. } => u32::from(*is_send),
            Self::Large { func, .. } => func.0,
            _ => 0,
        }
    }

    /// Of which kind they are.
    #[inline]
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Group => Kind::Group,
            Self::GroupApi { .. } => Kind::GroupApi,
            Self::KernelLaunch { .. } => Kind::KernelLaunch,
            Self::ProxyOp { .. } => Kind::ProxyOp,
            Self::ProxyStep { .. } => Kind::ProxyStep,
            Self::ProxyCtrl => Kind::ProxyCtrl,
            Self::KernelCh { .. } => Kind::KernelCh,
            Self::Large { kind, .. } => *kind,
        }
    }
}
