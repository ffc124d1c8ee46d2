//! Chooses the backend.
//!
//! CUPTI reports most, but in most releases it serves one tool at a time, and the second tool can lose its records
//! without an error. So the plugin does not use CUPTI where another tool uses it or may use it later. CUDA events
//! disturb no tool.

use super::driver::CudaError;
use cupti_sys::other_user;
use nccl_events::gpu::Backend as BackendKind;
use nccl_events::{Kind, Table, event};
use settings::gpu::BackendChoice;

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    /// The files that the process has mapped.
    pub(super) maps: &'a [String],
    pub(super) environment: &'a [(String, String)],
    /// The driver's answer about its version; `None` without a driver.
    pub(super) driver: Option<Result<u32, CudaError>>,
    /// The version of NCCL's profiler interface.
    pub(super) table: Table,
    pub(super) mask: u32,
    /// Whether an earlier session of the plugin loaded CUPTI.
    pub(super) is_cupti_ours: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The backend. If it is CUPTI and cannot be opened, the worker uses events.
    pub(super) backend: BackendKind,
    /// The reason, in one line.
    pub(super) line: String,
    /// Whether every user must read it.
    pub(super) is_fault: bool,
}

pub(super) fn decide(choice: BackendChoice, there: &Surroundings<'_>) -> Decision {
    let launches = Kind::KernelLaunch.mask() | Kind::CeColl.mask();
    let off = |line: String| Decision {
        backend: BackendKind::Off,
        line: format!("GPU work is not timed: {line}"),
        is_fault: false,
    };
    let wanted = matches!(choice, BackendChoice::Cupti | BackendChoice::Events);
    match there.driver {
        _ if choice == BackendChoice::Off => return off("NCCL_OTF2_GPU=off".to_owned()),
        None => {
            return Decision { is_fault: wanted, ..off("no libcuda.so.1 is loaded in this process".to_owned()) };
        }
        Some(Err(CudaError::STUB_LIBRARY)) => {
            return Decision {
                is_fault: true,
                ..off("the libcuda.so.1 that is loaded is a CUDA toolkit's stub for linking; take its directory out of LD_LIBRARY_PATH, or set NCCL_OTF2_GPU=off".to_owned())
            };
        }
        Some(Err(refusal)) => {
            return Decision {
                is_fault: true,
                ..off(format!("libcuda.so.1 does not answer: {refusal}; NCCL_OTF2_GPU=off silences this"))
            };
        }
        Some(Ok(_)) => {}
    }
    if !event::has(there.table, Kind::KernelLaunch) {
        return Decision {
            is_fault: wanted,
            ..off("this NCCL does not report its launches; 2.28 and later do".to_owned())
        };
    }
    if there.mask & launches == 0 {
        return Decision { is_fault: wanted, ..off("NCCL_OTF2_EVENTS leaves out KernelLaunch".to_owned()) };
    }
    let (backend, line) = match (choice, other_user(there.maps, there.environment, there.is_cupti_ours)) {
        (BackendChoice::Events, _) => {
            (BackendKind::Events, "GPU work is timed by CUDA events, as NCCL_OTF2_GPU=events says".to_owned())
        }
        (BackendChoice::Auto, Some((who, sign))) => (
            BackendKind::Events,
            format!(
                "GPU work is timed by CUDA events and not by CUPTI, which {who} may want ({sign}); NCCL_OTF2_GPU=cupti takes it all the same"
            ),
        ),
        (BackendChoice::Cupti, Some((who, sign))) => (
            BackendKind::Cupti,
            format!(
                "GPU work is timed by CUPTI, as NCCL_OTF2_GPU=cupti says; {who} ({sign}) may get nothing from it now"
            ),
        ),
        _ => (BackendKind::Cupti, "GPU work is timed by CUPTI (NCCL_OTF2_GPU=events does without)".to_owned()),
    };
    Decision { backend, line, is_fault: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::STANDARD;

    const PLAIN: Surroundings<'_> = Surroundings {
        maps: &[],
        environment: &[],
        driver: Some(Ok(12080)),
        table: Table::V5,
        mask: STANDARD,
        is_cupti_ours: false,
    };

    fn with_files(files: &[&str], action: impl FnOnce(&Surroundings<'_>)) {
        let maps: Vec<String> = files.iter().copied().map(str::to_owned).collect();
        action(&Surroundings { maps: &maps, ..PLAIN });
    }

    fn with_variable(name: &str, value: &str, action: impl FnOnce(&Surroundings<'_>)) {
        let environment = [("PATH".to_owned(), "/opt/nsys/bin".to_owned()), (name.to_owned(), value.to_owned())];
        action(&Surroundings { environment: &environment, ..PLAIN });
    }

    #[test]
    fn without_another_tool_it_is_cupti() {
        let decision = decide(BackendChoice::Auto, &PLAIN);
        assert_eq!((decision.backend, decision.is_fault), (BackendKind::Cupti, false));
        let files = [
            "/usr/lib/libcuda.so.1",
            "/opt/torch/nvidia/nccl/lib/libnccl.so.2",
            "/home/user/libcupti.so.d/liba.so",
            "/usr/lib/libcudart.so.12",
        ];
        with_files(&files, |there| {
            assert_eq!(decide(BackendChoice::Auto, there).backend, BackendKind::Cupti);
        });
    }

    #[test]
    fn another_tool_keeps_cupti() {
        for (file, who) in [
            ("/opt/torch/lib/libtorch_cuda.so", "PyTorch"),
            ("/opt/torch/lib/libtorch_cpu.so", "PyTorch"),
            ("/usr/lib/libcupti.so.12", "loaded libcupti"),
            ("/usr/lib/libcupti.so.2025.1.0", "loaded libcupti"),
            ("/opt/scorep/lib/libscorep_adapter_cuda_event.so.0", "Score-P"),
            ("/opt/tau/libTAU.so", "TAU"),
            ("/opt/nsys/libToolsInjection64.so", "Nsight Systems"),
            ("/opt/cuda/libsanitizer-collection.so", "Sanitizer"),
        ] {
            with_files(&["/usr/lib/libcuda.so.1", file], |there| {
                let decision = decide(BackendChoice::Auto, there);
                assert_eq!((decision.backend, decision.is_fault), (BackendKind::Events, false));
                let name = file.rsplit('/').next().unwrap();
                for text in [who, name, "NCCL_OTF2_GPU=cupti"] {
                    assert!(decision.line.contains(text), "{text}: {}", decision.line);
                }
                assert_eq!(decide(BackendChoice::Cupti, there).backend, BackendKind::Cupti);
            });
        }
        for (name, value) in [
            ("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so"),
            ("NSYS_PROFILING_SESSION_ID", "4711"),
            ("LD_PRELOAD", "/opt/nsys/libToolsInjectionProxy64.so"),
            ("SCOREP_CUDA_ENABLE", "yes"),
            ("KINETO_USE_DAEMON", "1"),
            ("TAU_CUPTI_API", "runtime"),
            ("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/opt/ncu"),
        ] {
            with_variable(name, value, |there| {
                let decision = decide(BackendChoice::Auto, there);
                assert_eq!(decision.backend, BackendKind::Events, "{name}");
                assert!(decision.line.contains(name), "{}", decision.line);
            });
        }
        for (name, value) in [
            ("CUDA_INJECTION64_PATH", "none"),
            ("CUDA_INJECTION64_PATH", ""),
            ("SCOREP_CUDA_ENABLE", "no"),
            ("KINETO_USE_DAEMON", "0"),
            ("LD_PRELOAD", "/usr/lib/libjemalloc.so.2"),
            ("MY_NSYS_PATH", "/opt/nsys"),
        ] {
            with_variable(name, value, |there| {
                assert_eq!(decide(BackendChoice::Auto, there).backend, BackendKind::Cupti, "{name}");
            });
        }
    }

    #[test]
    fn a_cupti_that_the_plugin_loaded_is_no_sign() {
        with_files(&["/usr/lib/libcupti.so.13"], |there| {
            let there = Surroundings { is_cupti_ours: true, ..*there };
            assert_eq!(decide(BackendChoice::Auto, &there).backend, BackendKind::Cupti);
        });
    }

    #[test]
    fn the_variable_decides() {
        assert_eq!(decide(BackendChoice::Events, &PLAIN).backend, BackendKind::Events);
        assert_eq!(decide(BackendChoice::Cupti, &PLAIN).backend, BackendKind::Cupti);
        assert_eq!(decide(BackendChoice::Off, &PLAIN).backend, BackendKind::Off);
    }

    #[test]
    fn what_cannot_be_timed_is_not_and_the_line_says_why() {
        let no_driver = Surroundings { driver: None, ..PLAIN };
        let stub = Surroundings { driver: Some(Err(CudaError::STUB_LIBRARY)), ..PLAIN };
        let mismatch = Surroundings { driver: Some(Err(CudaError(803))), ..PLAIN };
        let old = Surroundings { table: Table::V4, ..PLAIN };
        let few = Surroundings { mask: Kind::Coll.mask(), ..PLAIN };
        // A user who asked for timing gets a warning; others only if something is wrong.
        for (there, text, is_fault) in [
            (no_driver, "no libcuda.so.1 is loaded", false),
            (stub, "LD_LIBRARY_PATH", true),
            (mismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", true),
            (old, "2.28", false),
            (few, "NCCL_OTF2_EVENTS", false),
        ] {
            for choice in [BackendChoice::Auto, BackendChoice::Cupti, BackendChoice::Events] {
                let decision = decide(choice, &there);
                assert_eq!(decision.backend, BackendKind::Off, "{text}");
                assert!(decision.line.contains(text), "{}", decision.line);
                let is_asked_for = choice != BackendChoice::Auto;
                assert_eq!(decision.is_fault, is_fault || is_asked_for, "{text}");
            }
        }
    }

    #[test]
    fn a_line_fits_into_the_journal() {
        let long = "/usr/lib/libscorep_adapter_cuda_event_with_a_long_name.so.12.34.56";
        with_files(&[long], |there| {
            for choice in [BackendChoice::Auto, BackendChoice::Cupti] {
                let line = decide(choice, there).line;
                assert!(line.len() <= nccl_events::Name::MAX_BYTES, "{line}");
            }
        });
    }
}
