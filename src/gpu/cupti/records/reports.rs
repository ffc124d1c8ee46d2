//! Messages to the user about CUPTI: each kind of fault is reported once.

use std::fmt;
use std::mem::{Discriminant, discriminant};

use cupti_sys::Code;

use crate::gpu::backend::Output;
use nccl_events::gpu::Backend as BackendKind;

#[derive(Debug, Default)]
pub(in crate::gpu::cupti) struct Reports(Vec<Discriminant<Fault>>);

#[derive(Clone, Debug)]
pub(in crate::gpu::cupti) enum Fault {
    PushFailed(Code),
    IdsDisturbed,
    FlushFailed(Code),
    FlushHangs,
    ForeignBuffers,
    NoBuffer,
    Dropped(u64),
    DroppedUnknown(Code),
    BadRecord(String),
    NoTimes,
}

impl Reports {
    /// Reports a fault, unless a fault of the same kind has been reported.
    pub(in crate::gpu::cupti) fn once(&mut self, fault: &Fault, out: &mut dyn Output) {
        let kind = discriminant(fault);
        if !self.0.contains(&kind) {
            self.0.push(kind);
            out.fault(BackendKind::Cupti, &fault.to_string());
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PushFailed(code) => write!(
                f,
                "CUPTI does not take the ids of launches, {code}{}; their kernels are not tied to them",
                remedy(*code)
            ),
            Self::IdsDisturbed => f.write_str(
                "another component of the program uses the same kind of CUPTI's external ids (CUSTOM2): kernels may be \
                 tied to wrong launches, or to none",
            ),
            Self::FlushFailed(code) => {
                write!(f, "CUPTI does not give its records back, {code}{}; kernels may be missing", remedy(*code))
            }
            Self::FlushHangs => f.write_str(
                "CUPTI has not given its records back in time (cuptiActivityFlushAll): it is not waited for, and \
                 kernels may be missing",
            ),
            Self::ForeignBuffers => f.write_str(
                "CUPTI gave us buffers of another component of the program (torch.profiler?): kernels may be missing \
                 here and there. Run without it, or set NCCL_OTF2_GPU=events",
            ),
            Self::NoBuffer => {
                f.write_str("CUPTI asked for more memory than it is given (512 MiB): kernels are missing")
            }
            Self::Dropped(records) => write!(f, "CUPTI dropped {records} records: kernels are missing"),
            Self::DroppedUnknown(code) => {
                write!(f, "CUPTI does not say how many records it dropped, {code}: kernels may be missing")
            }
            Self::BadRecord(what) => {
                write!(f, "CUPTI gave a buffer that cannot be read to its end: {what}; kernels may be missing")
            }
            Self::NoTimes => {
                f.write_str("CUPTI gave kernels or copies without times: they are counted and not recorded")
            }
        }
    }
}

fn remedy(code: Code) -> String {
    code.remedy().map_or(String::new(), |remedy| format!(": {remedy}"))
}
