//! The fields of an operation in little memory: those of the proxy, of which there are most, lie in the operation itself;
//! larger ones, of what was called, elsewhere.

use crate::tables::near::bring_near;
use crate::tables::place::{index, place};
use crate::tables::room;
use crate::timeline::figure::func;
use journal::format::layout::{high, low, pair};
use journal::format::record::Symbol;
use nccl_events::Body;
use nccl_events::Kind;
use nccl_events::event;

/// Body<Symbol> as they are kept.
#[derive(Clone, Debug)]
pub(crate) enum Packed {
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
        /// See [`Packed::detail`].
        detail: u32,
        /// A place in [`Larger::fields`].
        at: u32,
    },
}

const _: () = assert!(size_of::<Packed>() <= 16);

/// A word that needs no more alignment than its halves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves([u32; 2]);

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
pub(crate) struct Larger {
    fields: Vec<Body<Symbol>>,
    /// Of proxy operations: those that NCCL names, which are few.
    pids: Vec<i32>,
}

impl Larger {
    /// Packs fields.
    #[inline]
    pub(crate) fn pack(&mut self, fields: &Body<Symbol>) -> Packed {
        if let Some(small) = self.small(fields) {
            return small;
        }
        let at = place(self.fields.len());
        room::push(&mut self.fields, *fields);
        Packed::Large {
            kind: fields.kind(),
            detail: match *fields {
                Body::ProxyOp(event::ProxyOp { is_send, .. }) => u32::from(is_send),
                _ => func(fields).0,
            },
            at,
        }
    }

    /// What fits.
    #[inline]
    fn small(&mut self, fields: &Body<Symbol>) -> Option<Packed> {
        Some(match *fields {
            Body::Group(event::Group {}) => Packed::Group,
            Body::GroupApi(event::GroupApi {
                graph_captured,
                depth,
            }) => Packed::GroupApi {
                graph_captured,
                depth,
            },
            Body::KernelLaunch(event::KernelLaunch { stream }) => Packed::KernelLaunch {
                stream: Halves::of(stream),
            },
            Body::ProxyOp(event::ProxyOp {
                pid,
                channel,
                peer,
                steps,
                chunk_bytes,
                is_send,
            }) => Packed::ProxyOp {
                pid: self.pid(pid)?,
                peer,
                steps,
                chunk_bytes,
                channel,
                is_send,
            },
            Body::ProxyStep(event::ProxyStep { step }) => Packed::ProxyStep {
                step,
                bytes: Halves::NOTHING,
            },
            Body::ProxyCtrl(event::ProxyCtrl {}) => Packed::ProxyCtrl,
            Body::KernelCh(event::KernelCh { channel, gpu_ns }) => Packed::KernelCh {
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
    pub(crate) fn get(&self, packed: &Packed) -> Body<Symbol> {
        match *packed {
            Packed::Group => Body::Group(event::Group {}),
            Packed::GroupApi {
                graph_captured,
                depth,
            } => Body::GroupApi(event::GroupApi {
                graph_captured,
                depth,
            }),
            Packed::KernelLaunch { stream } => Body::KernelLaunch(event::KernelLaunch {
                stream: stream.word(),
            }),
            Packed::ProxyOp {
                pid,
                peer,
                steps,
                chunk_bytes,
                channel,
                is_send,
            } => Body::ProxyOp(event::ProxyOp {
                pid: self.pids.get(usize::from(pid)).copied().unwrap_or(0),
                channel,
                peer,
                steps,
                chunk_bytes,
                is_send,
            }),
            Packed::ProxyStep { step, .. } => Body::ProxyStep(event::ProxyStep { step }),
            Packed::ProxyCtrl => Body::ProxyCtrl(event::ProxyCtrl {}),
            Packed::KernelCh { channel, gpu_ns } => Body::KernelCh(event::KernelCh {
                channel,
                gpu_ns: gpu_ns.word(),
            }),
            Packed::Large { at, .. } => {
                let fields = self.fields.get(index(at)).copied();
                fields.unwrap_or(Body::Group(event::Group {}))
            }
        }
    }
}

impl Packed {
    /// The bytes of a proxy step; 0 for anything else.
    #[inline]
    pub(crate) const fn step_bytes(&self) -> u64 {
        match *self {
            Self::ProxyStep { bytes, .. } => bytes.word(),
            _ => 0,
        }
    }

    /// Sets those of a proxy step.
    #[inline]
    pub(crate) fn set_step_bytes(&mut self, new: u64) {
        if let Self::ProxyStep { bytes, .. } = self {
            *bytes = Halves::of(new);
        }
    }

    /// Has the fields brought near, of an operation that is near already.
    #[inline]
    pub(crate) fn bring_near(&self, larger: &Larger) {
        if let Self::Large { at, .. } = *self
            && let Some(fields) = larger.fields.get(index(at))
        {
            bring_near(fields);
        }
    }

    /// See [`Operation::func`](crate::tables::assembly::Operation::func).
    #[inline]
    pub(crate) const fn func(&self) -> Symbol {
        match *self {
            Self::Large { kind, detail, .. } if !matches!(kind, Kind::ProxyOp) => Symbol(detail),
            _ => Symbol::NONE,
        }
    }

    /// What tells the region of the operation, of its enqueueing and of its call, beside its kind: the function, or the
    /// direction.
    #[inline]
    pub(crate) fn detail(&self) -> u32 {
        match self {
            Self::ProxyOp { is_send, .. } => u32::from(*is_send),
            Self::Large { detail, .. } => *detail,
            _ => 0,
        }
    }

    /// Of which kind they are.
    #[inline]
    pub(crate) const fn kind(&self) -> Kind {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(pid: i32) -> Body<Symbol> {
        Body::ProxyOp(event::ProxyOp {
            pid,
            channel: 200,
            peer: -1,
            steps: i32::MAX,
            chunk_bytes: i32::MIN,
            is_send: true,
        })
    }

    /// Also where there are more processes than a byte counts: those are kept elsewhere.
    #[test]
    fn transfers_for_many_processes_come_back_as_they_were() {
        let mut larger = Larger::default();
        let all: Vec<Body<Symbol>> = (0..600).map(|pid| transfer(pid % 300)).collect();
        let packed: Vec<Packed> = all.iter().map(|fields| larger.pack(fields)).collect();
        for (fields, packed) in all.iter().zip(&packed) {
            assert_eq!(larger.get(packed), *fields);
            assert_eq!((packed.kind(), packed.detail()), (Kind::ProxyOp, 1));
        }
        assert_eq!((larger.pids.len(), larger.fields.len()), (256, 2 * 44));
    }

    #[test]
    fn words_in_halves() {
        let mut larger = Larger::default();
        let word = 0x0123_4567_89ab_cdef;
        for fields in [
            Body::KernelLaunch(event::KernelLaunch { stream: word }),
            Body::KernelCh(event::KernelCh {
                channel: 3,
                gpu_ns: word,
            }),
        ] {
            let packed = larger.pack(&fields);
            assert_eq!(larger.get(&packed), fields);
        }
        let mut step = larger.pack(&Body::ProxyStep(event::ProxyStep { step: 4 }));
        step.set_step_bytes(word);
        assert_eq!(step.step_bytes(), word);
        assert_eq!(
            larger.get(&step),
            Body::ProxyStep(event::ProxyStep { step: 4 })
        );
    }
}
