//! The fields of an operation in little memory: those of the proxy, of which there are most, lie in the operation itself;
//! larger ones, of what was called, elsewhere.

use super::figure::func;
use super::near::bring_near;
use super::place::{index, place};
use super::room;
use crate::event::Kind;
use crate::journal::layout::{high, low, pair};
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
        stream: Halves,
    },
    ProxyOp {
        /// A place in [`Larger::pids`].
        pid: u8,
        channel: u8,
        is_send: bool,
        peer: i32,
        steps: i32,
        chunk_bytes: i32,
    },
    ProxyStep {
        step: i32,
        /// What its states told.
        bytes: Halves,
    },
    ProxyCtrl,
    KernelCh {
        channel: u8,
        gpu_ns: Halves,
    },
    /// With what is asked for most: the fields themselves are elsewhere.
    Large {
        kind: Kind,
        func: Symbol,
        /// A place in [`Larger::fields`].
        at: u32,
    },
}

const _: () = assert!(size_of::<Packed>() <= 16);

/// A word that needs no more alignment than its halves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halves([u32; 2]);

impl Halves {
    const NOTHING: Self = Self([0; 2]);

    #[inline]
    const fn of(word: u64) -> Self {
        Self([low(word), high(word)])
    }

    #[inline]
    const fn word(self) -> u64 {
        let Self([low, high]) = self;
        pair(low, high)
    }
}

/// The fields that are too large for [`Packed`], of all operations.
#[derive(Debug, Default)]
pub(super) struct Larger {
    fields: Vec<Fields>,
    /// Of proxy operations: those that NCCL names, which are few.
    pids: Vec<i32>,
}

impl Larger {
    /// Packs fields.
    #[inline]
    pub(super) fn pack(&mut self, fields: &Fields) -> Packed {
        if let Some(small) = self.small(fields) {
            return small;
        }
        let at = place(self.fields.len());
        room::push(&mut self.fields, *fields);
        Packed::Large {
            kind: fields.kind(),
            func: func(fields),
            at,
        }
    }

    /// What fits.
    #[inline]
    fn small(&mut self, fields: &Fields) -> Option<Packed> {
        Some(match *fields {
            Fields::Group => Packed::Group,
            Fields::GroupApi {
                graph_captured,
                depth,
            } => Packed::GroupApi {
                graph_captured,
                depth,
            },
            Fields::KernelLaunch { stream } => Packed::KernelLaunch {
                stream: Halves::of(stream),
            },
            Fields::ProxyOp {
                pid,
                channel,
                peer,
                steps,
                chunk_bytes,
                is_send,
            } => Packed::ProxyOp {
                pid: self.pid(pid)?,
                peer,
                steps,
                chunk_bytes,
                channel,
                is_send,
            },
            Fields::ProxyStep { step } => Packed::ProxyStep {
                step,
                bytes: Halves::NOTHING,
            },
            Fields::ProxyCtrl => Packed::ProxyCtrl,
            Fields::KernelCh { channel, gpu_ns } => Packed::KernelCh {
                channel,
                gpu_ns: Halves::of(gpu_ns),
            },
            _ => return None,
        })
    }

    /// The place of a process id; `None` where there are more than a byte counts.
    #[inline]
    fn pid(&mut self, pid: i32) -> Option<u8> {
        let known = self.pids.iter().position(|known| *known == pid);
        let at = u8::try_from(known.unwrap_or(self.pids.len())).ok()?;
        if known.is_none() {
            self.pids.push(pid);
        }
        Some(at)
    }

    /// The fields as they were.
    #[inline]
    pub(super) fn get(&self, packed: &Packed) -> Fields {
        match *packed {
            Packed::Group => Fields::Group,
            Packed::GroupApi {
                graph_captured,
                depth,
            } => Fields::GroupApi {
                graph_captured,
                depth,
            },
            Packed::KernelLaunch { stream } => Fields::KernelLaunch {
                stream: stream.word(),
            },
            Packed::ProxyOp {
                pid,
                peer,
                steps,
                chunk_bytes,
                channel,
                is_send,
            } => Fields::ProxyOp {
                pid: self.pids.get(usize::from(pid)).copied().unwrap_or(0),
                channel,
                peer,
                steps,
                chunk_bytes,
                is_send,
            },
            Packed::ProxyStep { step, .. } => Fields::ProxyStep { step },
            Packed::ProxyCtrl => Fields::ProxyCtrl,
            Packed::KernelCh { channel, gpu_ns } => Fields::KernelCh {
                channel,
                gpu_ns: gpu_ns.word(),
            },
            Packed::Large { at, .. } => {
                let fields = self.fields.get(index(at)).copied();
                fields.unwrap_or(Fields::Group)
            }
        }
    }
}

impl Packed {
    /// The bytes of a proxy step; 0 for anything else.
    #[inline]
    pub(super) const fn step_bytes(&self) -> u64 {
        match *self {
            Self::ProxyStep { bytes, .. } => bytes.word(),
            _ => 0,
        }
    }

    /// Sets those of a proxy step.
    #[inline]
    pub(super) fn set_step_bytes(&mut self, new: u64) {
        if let Self::ProxyStep { bytes, .. } = self {
            *bytes = Halves::of(new);
        }
    }

    /// Has the fields brought near, of an operation that is near already.
    #[inline]
    pub(super) fn bring_near(&self, larger: &Larger) {
        if let Self::Large { at, .. } = *self
            && let Some(fields) = larger.fields.get(index(at))
        {
            bring_near(fields);
        }
    }

    /// See [`Operation::func`](super::assembly::Operation::func).
    #[inline]
    pub(super) const fn func(&self) -> Symbol {
        match *self {
            Self::Large { func, .. } => func,
            _ => Symbol::NONE,
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
