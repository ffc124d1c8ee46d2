//! A process that launches kernels, with doubles of CUPTI and the driver.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::gpu::cupti::session::{NotUsed, Session, Settings};
use crate::gpu::cupti::{Cupti, open};
use crate::gpu::driver::Driver;
use crate::gpu::output::{Backend, Launch, Output};
use nccl_events::gpu::{Backend as BackendKind, ClockSample, Copy, GpuCount, GpuRecord, Kernel};
use nccl_events::ids::{EventId, ProcessTag};
use nccl_events::{Kind, Name};
use whole_plugin::built;
use whole_plugin::scenario::passes;

/// The first level with each size of records and each set of functions, and a future level.
pub(crate) const LEVELS: [u32; 10] = [18, 20, 23, 26, 130_001, 130_101, 130_301, 130_401, 130_500, 140_000];

/// The name of one of NCCL's kernels.
pub(crate) const NCCL: &CStr = c"_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";
/// The name of another library's kernel.
pub(crate) const OTHER: &CStr = c"ampere_sgemm_128x64_nn";

/// `cuLaunchKernel`, `cuLaunchKernelEx`.
pub(crate) const LAUNCHES: [u32; 2] = [307, 652];

/// Runs `body` in a child process with these variables. The child must succeed.
pub(crate) fn scenario(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    passes(&format!("gpu::cupti::tests::{name}"), variables, Some(&built::fake_gpu()), body);
}

/// Settings that name the double.
pub(crate) fn settings() -> Settings {
    Settings { library: Some(built::fake_cupti()), ..Settings::default() }
}

/// The reason why CUPTI is not used.
pub(crate) fn refusal(settings: &Settings) -> String {
    Session::open(settings).err().unwrap().to_string()
}

/// Collects the backend's records.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) kernels: Vec<(u64, Kernel<String>)>,
    pub(crate) copies: Vec<(u64, Copy)>,
    pub(crate) clocks: Vec<ClockSample>,
    pub(crate) counts: BTreeMap<GpuCount, u64>,
    pub(crate) notices: Vec<String>,
    pub(crate) faults: Vec<String>,
}

impl Output for Recorded {
    fn record(&mut self, _ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) {
        match *record {
            GpuRecord::Kernel(kernel) => {
                let name = |name: Name<'_>| String::from_utf8_lossy(name.bytes()).into_owned();
                let kernel = kernel.map_names(|text| Some(name(text)));
                self.kernels.extend(kernel.map(|kernel| (id, kernel)));
            }
            GpuRecord::Copy(copy) => self.copies.push((id, copy)),
            GpuRecord::Clock(sample) => self.clocks.push(sample),
            _ => panic!("not a record of CUPTI's: {record:?}"),
        }
    }

    fn count(&mut self, count: GpuCount, more: u64) {
        if more > 0 {
            *self.counts.entry(count).or_default() += more;
        }
    }

    fn notice(&mut self, _backend: BackendKind, text: &str) {
        self.notices.push(whole(text));
    }

    fn fault(&mut self, _backend: BackendKind, text: &str) {
        self.faults.push(whole(text));
    }
}

/// Checks that the archive would not cut the line.
fn whole(text: &str) -> String {
    assert!(text.len() <= Name::MAX_BYTES, "{} bytes: {text}", text.len());
    text.to_owned()
}

impl Recorded {
    pub(crate) fn get(&self, count: GpuCount) -> u64 {
        self.counts.get(&count).copied().unwrap_or(0)
    }

    /// All nonzero counters.
    pub(crate) fn all(&self) -> Vec<(GpuCount, u64)> {
        self.counts.iter().map(|(count, number)| (*count, *number)).collect()
    }

    /// Fails unless there was exactly one fault, whose line contains these words.
    pub(crate) fn one_fault(&self, words: &str) {
        assert_eq!(self.faults.len(), 1, "{:?}", self.faults);
        assert!(self.faults[0].contains(words), "{:?}", self.faults);
    }
}

/// A launch: its event id and CUPTI's correlation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Launched {
    pub(crate) id: u64,
    pub(crate) correlation: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Double(*mut c_void);

// SAFETY: the loader's handle, which any thread may use.
unsafe impl Send for Double {}
// SAFETY: as above.
unsafe impl Sync for Double {}

macro_rules! control {
    ($double:expr, $name:literal, ($($type:ty),*) -> $result:ty, $($argument:expr),*) => {{
        // SAFETY: an open handle and a NUL-terminated string.
        let found = unsafe { libc::dlsym($double.0, $name.as_ptr()) };
        assert!(!found.is_null(), "{:?}", $name);
        // SAFETY: the double's README documents this type.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $result>(found)
        };
        // SAFETY: the arguments live during the call.
        unsafe { function($($argument),*) }
    }};
}

impl Double {
    pub(crate) fn mapped() -> Self {
        let path = built::fake_cupti();
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a NUL-terminated string; the double's initialiser only hides names.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null());
        Self(handle)
    }

    /// Calls a driver function that launches nothing.
    pub(crate) fn call(self, cbid: u32) -> u32 {
        control!(self, c"fake_cupti_api", (u32, u32) -> u32, 4, cbid)
    }

    pub(crate) fn launch(self, cbid: u32, stream: u32, name: &CStr) -> u32 {
        control!(
            self, c"fake_cupti_launch", (u32, u32, u32, u32, *const i8, u64, u64, u64) -> u32,
            cbid, stream % 2, 1, stream, name.as_ptr().cast(), 0, 0, 0
        )
    }

    pub(crate) fn launch_at(self, stream: u32, name: &CStr, start_ns: u64, end_ns: u64) -> u32 {
        control!(
            self, c"fake_cupti_launch", (u32, u32, u32, u32, *const i8, u64, u64, u64) -> u32,
            652, 0, 1, stream, name.as_ptr().cast(), 0, start_ns, end_ns
        )
    }

    pub(crate) fn copy(self, copy_kind: u32, bytes: u64) -> u32 {
        control!(
            self, c"fake_cupti_memcpy", (u32, u32, u32, u32, u32, u64, u64, u64) -> u32,
            41, 0, 1, 7, copy_kind, bytes, 0, 0
        )
    }

    pub(crate) fn replay(self, names: &[&CStr], nodes: &[u64]) -> u32 {
        let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let count = u32::try_from(names.len()).unwrap();
        control!(
            self, c"fake_cupti_graph_launch",
            (u32, u32, u32, u32, u32, *const *const std::ffi::c_char, *const u64) -> u32,
            0, 1, 7, 9, count, names.as_ptr(), nodes.as_ptr()
        )
    }

    pub(crate) fn drain(self) {
        control!(self, c"fake_cupti_drain", () -> (),)
    }

    pub(crate) fn other_tool(self, action: u32) -> i32 {
        control!(self, c"fake_cupti_other_tool", (u32) -> i32, action)
    }

    pub(crate) fn count(self, name: &CStr) -> u64 {
        control!(self, c"fake_cupti_count", (*const i8) -> u64, name.as_ptr().cast())
    }
}

/// A session that uses the double.
pub(crate) struct Rig {
    pub(crate) backend: Arc<Cupti>,
    pub(crate) description: String,
    pub(crate) double: Double,
    pub(crate) output: Recorded,
}

impl Rig {
    pub(crate) fn open() -> Self {
        Self::open_with(settings()).unwrap()
    }

    pub(crate) fn open_with(settings: Settings) -> Result<Self, NotUsed> {
        journal::clock::select();
        crate::host::process::watch_forks(|| {});
        let driver = Driver::find_loaded().unwrap();
        let opened = open(settings, driver)?;
        Ok(Self {
            backend: opened.backend,
            description: opened.description,
            double: Double::mapped(),
            output: Recorded::default(),
        })
    }

    /// Launches a kernel on this thread, as NCCL does.
    pub(crate) fn launch(&self, cbid: u32, stream: u32) -> Launched {
        let id = next_id(Kind::KernelLaunch);
        self.backend.begins(launch_of(id));
        // NCCL first calls a function that launches nothing.
        self.double.call(371);
        let correlation = self.double.launch(cbid, stream, NCCL);
        self.backend.ends(id);
        Launched { id: id.get(), correlation }
    }

    pub(crate) fn collect(&mut self) {
        self.backend.collect(&mut self.output);
    }

    /// Ends the session after all launches have run.
    pub(crate) fn finish(&mut self) {
        self.double.drain();
        self.finish_at_once();
    }

    pub(crate) fn finish_at_once(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        self.backend.finish(&mut self.output, deadline);
    }

    /// Fails unless every launch has its kernel, and no kernel has any other id.
    pub(crate) fn all_are_joined(&self, launched: &[Launched]) {
        let mut expected: Vec<_> = launched.to_vec();
        expected.sort();
        let launched_kernels = self.output.kernels.iter().filter(|(id, _)| *id != 0);
        let mut found: Vec<_> =
            launched_kernels.map(|(id, kernel)| Launched { id: *id, correlation: kernel.correlation }).collect();
        found.sort();
        assert_eq!(found.len(), expected.len(), "{:?}", self.output.counts);
        assert!(found == expected);
    }
}

pub(crate) fn launch_of(id: EventId) -> Launch {
    Launch { id, stream: 0 }
}

/// An id for a new event.
pub(crate) fn next_id(kind: Kind) -> EventId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let sequence = NEXT.fetch_add(1, Ordering::Relaxed);
    EventId::new(ProcessTag::new(0xabc), 3, sequence, kind)
}
