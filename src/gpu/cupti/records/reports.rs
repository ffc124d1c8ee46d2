//! What a user reads about CUPTI: each fault is reported once.

use cupti_sys::Code;

use crate::gpu::backend::Output;
use nccl_events::gpu::Backend as BackendKind;

#[derive(Debug, Default)]
pub(in crate::gpu::cupti) struct Reports(Vec<Fault>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    PushFailed,
    IdsDisturbed,
    FlushFailed,
    FlushHangs,
    ForeignBuffers,
    NoBuffer,
    Dropped,
    BadRecord,
    NoTimes,
}

impl Reports {
    /// Reports a fault, unless it has been reported.
    fn once(&mut self, fault: Fault, out: &mut dyn Output, text: impl FnOnce() -> String) {
        if !self.0.contains(&fault) {
            self.0.push(fault);
            out.fault(BackendKind::Cupti, &text());
        }
    }

    /// CUPTI does not take the ids of launches.
    pub(in crate::gpu::cupti) fn push_failed(&mut self, code: Code, out: &mut dyn Output) {
        self.once(Fault::PushFailed, out, || {
            let remedy = remedy(code);
            format!("CUPTI does not take the ids of launches, {code}{remedy}; their kernels are not tied to them")
        });
    }

    /// CUPTI's stack has other ids than the plugin pushed.
    pub(in crate::gpu::cupti) fn ids_disturbed(&mut self, out: &mut dyn Output) {
        self.once(Fault::IdsDisturbed, out, || {
            "another component of the program uses the same kind of CUPTI's external ids (CUSTOM2): kernels may be tied \
             to wrong launches, or to none"
                .to_owned()
        });
    }

    pub(in crate::gpu::cupti) fn flushed(&mut self, code: Code, out: &mut dyn Output) {
        if !code.is_success() {
            self.once(Fault::FlushFailed, out, || {
                let remedy = remedy(code);
                format!("CUPTI does not give its records back, {code}{remedy}; kernels may be missing")
            });
        }
    }

    /// A flush does not return.
    pub(in crate::gpu::cupti) fn flush_hangs(&mut self, out: &mut dyn Output) {
        self.once(Fault::FlushHangs, out, || {
            "CUPTI has not given its records back in time (cuptiActivityFlushAll): it is not waited for, and kernels may \
             be missing"
                .to_owned()
        });
    }

    /// CUPTI returned buffers of another tool.
    pub(super) fn foreign_buffers(&mut self, out: &mut dyn Output) {
        self.once(Fault::ForeignBuffers, out, || {
            "CUPTI gave us buffers of another component of the program (torch.profiler?): kernels may be missing here \
             and there. Run without it, or set NCCL_OTF2_GPU=events"
                .to_owned()
        });
    }

    /// CUPTI got no buffer.
    pub(super) fn no_buffer(&mut self, out: &mut dyn Output) {
        self.once(Fault::NoBuffer, out, || {
            "CUPTI asked for more memory than it is given (512 MiB): kernels are missing".to_owned()
        });
    }

    pub(super) fn dropped(&mut self, records: u64, out: &mut dyn Output) {
        self.once(Fault::Dropped, out, || format!("CUPTI dropped {records} records: kernels are missing"));
    }

    /// A buffer cannot be read to its end.
    pub(super) fn bad_record(&mut self, what: &str, out: &mut dyn Output) {
        self.once(Fault::BadRecord, out, || {
            format!("CUPTI gave a buffer that cannot be read to its end: {what}; kernels may be missing")
        });
    }

    /// Work has no times.
    pub(super) fn no_times(&mut self, out: &mut dyn Output) {
        self.once(Fault::NoTimes, out, || {
            "CUPTI gave kernels or copies without times: they are counted and not recorded".to_owned()
        });
    }
}

fn remedy(code: Code) -> String {
    code.remedy().map_or(String::new(), |remedy| format!(": {remedy}"))
}
