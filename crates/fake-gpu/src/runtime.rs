//! The functions of the CUDA runtime that NCCL uses.

use crate::mem::{self, Kind};
use crate::patch;
use crate::stream::{self, Graph, Keep, Op};
use crate::sys::{c_char, c_int, c_uint, c_ulonglong, c_void, size_t};
use crate::{debug, kernel, warn};
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const OK: c_int = 0;
const INVALID: c_int = 1;
const NO_MEMORY: c_int = 2;
const BAD_DEVICE: c_int = 101;
const BAD_HANDLE: c_int = 400;
const NOT_READY: c_int = 600;

/// Newer than every runtime that the published libraries are built with.
pub const DRIVER_VERSION: c_int = 13040;

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

pub fn device() -> c_int {
    DEVICE.with(|d| d.get())
}

pub fn device_count() -> c_int {
    static N: OnceLock<c_int> = OnceLock::new();
    *N.get_or_init(|| {
        std::env::var("FAKEGPU_DEVICES")
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(8)
    })
}

/// Compute capability of the devices, 80 unless `FAKEGPU_SM` says otherwise.
pub fn capability() -> (c_int, c_int) {
    static C: OnceLock<c_int> = OnceLock::new();
    let sm = *C.get_or_init(|| {
        std::env::var("FAKEGPU_SM")
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(80)
    });
    (sm / 10, sm % 10)
}

/// A domain that no real machine has, so that the system's own tree is not
/// consulted by mistake.
pub fn bus_id(dev: c_int) -> String {
    format!("fa6e:{:02x}:00.0", 0x10 + dev)
}

pub fn bus_id_to_device(id: &str) -> Option<c_int> {
    let bus = id.split(':').nth(1)?;
    let dev = c_int::from_str_radix(bus, 16).ok()? - 0x10;
    (0..device_count()).contains(&dev).then_some(dev)
}

/// Set when a kernel could not be emulated: waiting for a stream then fails,
/// so that the host program stops instead of hanging.
static BROKEN: AtomicBool = AtomicBool::new(false);
const LAUNCH_FAILURE: c_int = 719;

pub fn break_device() {
    BROKEN.store(true, Ordering::Relaxed);
}

fn health() -> c_int {
    if BROKEN.load(Ordering::Relaxed) {
        fail(LAUNCH_FAILURE)
    } else {
        OK
    }
}

fn fail(e: c_int) -> c_int {
    LAST.with(|l| l.set(e));
    e
}

fn stream_of(s: *mut c_void) -> Option<std::sync::Arc<stream::Stream>> {
    stream::get(s as usize, device())
}

macro_rules! stream {
    ($s:expr) => {
        match stream_of($s) {
            Some(s) => s,
            None => return fail(BAD_HANDLE),
        }
    };
}

macro_rules! api {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        $(
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
                debug!(2, "{}", stringify!($name));
                $body
            }
        )*
        pub fn hooks() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($name), $name as *const () as usize)),*]
        }
    };
}

fn copy_job(dst: *mut c_void, src: *const c_void, n: usize) -> Op {
    let (d, s) = (dst as usize, src as usize);
    Arc::new(move || unsafe { std::ptr::copy(s as *const u8, d as *mut u8, n) })
}

fn set_job(dst: *mut c_void, v: c_int, n: usize) -> Op {
    let d = dst as usize;
    Arc::new(move || unsafe { std::ptr::write_bytes(d as *mut u8, v as u8, n) })
}

/// Status 1 ("active"), identifier and graph of a stream that is being
/// captured; which of the pointers a caller has depends on the version.
unsafe fn capture_info(
    s: *mut c_void,
    status: *mut c_int,
    id: *mut c_ulonglong,
    graph: *mut *mut c_void,
) -> c_int {
    let g = stream!(s).capture();
    *status = g.is_some() as c_int;
    if let Some(g) = g {
        if !id.is_null() {
            *id = g.id;
        }
        if !graph.is_null() {
            *graph = Arc::as_ptr(&g) as *mut c_void;
        }
    }
    OK
}

unsafe fn no_edges(status: *const c_int, deps: *mut *const c_void, n: *mut size_t) {
    if *status != 0 {
        if !deps.is_null() {
            *deps = std::ptr::null();
        }
        if !n.is_null() {
            *n = 0;
        }
    }
}

/// `cudaHostNodeParams`
#[repr(C)]
pub struct HostNode {
    f: extern "C" fn(*mut c_void),
    data: *mut c_void,
}

unsafe fn fill_properties(p: *mut u8, dev: c_int) -> c_int {
    if !(0..device_count()).contains(&dev) {
        return fail(BAD_DEVICE);
    }
    // Only the head of the structure, which is the same in all versions:
    // name[256], uuid[16], luid[8], mask, totalGlobalMem, ..., major, minor.
    std::ptr::write_bytes(p, 0, 368);
    let name = b"Fake GPU\0";
    std::ptr::copy_nonoverlapping(name.as_ptr(), p, name.len());
    *p.add(256) = dev as u8 + 1;
    let put64 = |off: usize, v: u64| (p.add(off) as *mut u64).write_unaligned(v);
    let put32 = |off: usize, v: i32| (p.add(off) as *mut i32).write_unaligned(v);
    put64(288, 16 << 30); // totalGlobalMem
    put64(296, 48 << 10); // sharedMemPerBlock
    put32(304, 65536); // regsPerBlock
    put32(308, 32); // warpSize
    put64(312, 0x7fff_ffff); // memPitch
    put32(320, 1024); // maxThreadsPerBlock
    let (major, minor) = capability();
    put32(360, major);
    put32(364, minor);
    OK
}

pub fn attribute(attr: c_int, dev: c_int) -> c_int {
    let (major, minor) = capability();
    match attr {
        1 => 1024,      // MaxThreadsPerBlock
        2..=4 => 1024,  // MaxBlockDim
        5..=7 => 65535, // MaxGridDim
        8 => 48 << 10,  // MaxSharedMemoryPerBlock
        10 => 32,       // WarpSize
        16 => 108,      // MultiProcessorCount
        33 => 0x10 + dev,
        34 => 0,
        41 => 1, // UnifiedAddressing
        50 => 0xfa6e,
        75 => major,
        76 => minor,
        81 => 164 << 10, // MaxSharedMemoryPerMultiprocessor
        97 => 163 << 10, // MaxSharedMemoryPerBlockOptin
        _ => 0,
    }
}

/// Queues the launch of a kernel whose arguments are one block of bytes.
pub unsafe fn launch(func: *mut c_void, stream: *mut c_void, args: *const u8, len: usize) -> c_int {
    let s = stream!(stream);
    let Some(lib) = patch::library() else {
        return fail(INVALID);
    };
    let name = lib
        .kernels
        .get(&(func as usize))
        .cloned()
        .unwrap_or_default();
    debug!(1, "launch {name} {len} bytes on stream {}", s.id);
    if !name.contains("ncclDevKernel_") || args.is_null() || len < 32 {
        warn!("kernel {name:?} at {func:?} is not emulated");
        break_device();
        return OK;
    }
    let job = kernel::Launch::copy(args, len);
    s.submit(Arc::new(move || job.run(&lib)), false);
    OK
}

fn name_of(e: c_int) -> &'static CStr {
    match e {
        0 => c"no error",
        1 => c"invalid argument",
        2 => c"out of memory",
        101 => c"invalid device ordinal",
        400 => c"invalid resource handle",
        600 => c"device not ready",
        719 => c"the kernel is not emulated",
        801 => c"operation not supported",
        _ => c"fake device error",
    }
}

unsafe fn entry_point(symbol: *const c_char, fun: *mut *mut c_void, status: *mut c_int) -> c_int {
    let name = CStr::from_ptr(symbol).to_string_lossy();
    *fun = patch::driver_symbol(&name) as *mut c_void;
    if !status.is_null() {
        *status = 0;
    }
    OK
}

api! {
    fn cudaDriverGetVersion(v: *mut c_int) -> c_int {
        *v = DRIVER_VERSION;
        OK
    }
    fn cudaRuntimeGetVersion(v: *mut c_int) -> c_int {
        *v = patch::library().map_or(12000, |l| l.cuda);
        OK
    }
    fn cudaGetLastError() -> c_int { LAST.with(|l| l.replace(0)) }
    fn cudaPeekAtLastError() -> c_int { LAST.with(|l| l.get()) }
    fn cudaGetErrorString(e: c_int) -> *const c_char { name_of(e).as_ptr() }
    fn cudaGetErrorName(e: c_int) -> *const c_char { name_of(e).as_ptr() }

    fn cudaGetDeviceCount(n: *mut c_int) -> c_int {
        *n = device_count();
        OK
    }
    fn cudaGetDevice(d: *mut c_int) -> c_int {
        *d = device();
        OK
    }
    fn cudaSetDevice(d: c_int) -> c_int {
        if !(0..device_count()).contains(&d) {
            return fail(BAD_DEVICE);
        }
        DEVICE.with(|x| x.set(d));
        OK
    }
    fn cudaInitDevice(_d: c_int, _f: c_uint, _g: c_uint) -> c_int { OK }
    fn cudaSetDeviceFlags(_f: c_uint) -> c_int { OK }
    fn cudaGetDeviceFlags(f: *mut c_uint) -> c_int {
        *f = 0;
        OK
    }
    fn cudaDeviceSynchronize() -> c_int {
        stream::sync_device(device());
        health()
    }
    fn cudaDeviceReset() -> c_int { OK }
    fn cudaDeviceGetAttribute(v: *mut c_int, attr: c_int, dev: c_int) -> c_int {
        *v = attribute(attr, dev);
        OK
    }
    fn cudaDeviceGetLimit(v: *mut size_t, _l: c_int) -> c_int {
        *v = 1024;
        OK
    }
    fn cudaDeviceSetLimit(_l: c_int, _v: size_t) -> c_int { OK }
    fn cudaDeviceGetPCIBusId(text: *mut c_char, len: c_int, dev: c_int) -> c_int {
        if !(0..device_count()).contains(&dev) {
            return fail(BAD_DEVICE);
        }
        let id = CString::new(bus_id(dev)).unwrap();
        let n = id.as_bytes_with_nul().len();
        if n > len as usize {
            return fail(INVALID);
        }
        std::ptr::copy_nonoverlapping(id.as_ptr(), text, n);
        OK
    }
    fn cudaDeviceGetByPCIBusId(dev: *mut c_int, text: *const c_char) -> c_int {
        match bus_id_to_device(&CStr::from_ptr(text).to_string_lossy()) {
            Some(d) => {
                *dev = d;
                OK
            }
            None => fail(INVALID),
        }
    }
    fn cudaGetDeviceProperties(p: *mut u8, dev: c_int) -> c_int { fill_properties(p, dev) }
    fn cudaGetDeviceProperties_v2(p: *mut u8, dev: c_int) -> c_int { fill_properties(p, dev) }
    fn cudaDeviceCanAccessPeer(can: *mut c_int, _a: c_int, _b: c_int) -> c_int {
        *can = 0;
        OK
    }
    fn cudaDeviceEnablePeerAccess(_p: c_int, _f: c_uint) -> c_int { OK }
    fn cudaDeviceDisablePeerAccess(_p: c_int) -> c_int { OK }
    fn cudaDeviceGetStreamPriorityRange(lo: *mut c_int, hi: *mut c_int) -> c_int {
        if !lo.is_null() { *lo = 0; }
        if !hi.is_null() { *hi = -5; }
        OK
    }
    fn cudaDeviceFlushGPUDirectRDMAWrites(_t: c_int, _s: c_int) -> c_int { OK }
    fn cudaThreadExchangeStreamCaptureMode(_m: *mut c_int) -> c_int { OK }

    fn cudaMalloc(p: *mut *mut c_void, n: size_t) -> c_int {
        match mem::alloc(n, Kind::Device, device()) {
            Some(a) => {
                *p = a as *mut c_void;
                OK
            }
            None => fail(NO_MEMORY),
        }
    }
    fn cudaFree(p: *mut c_void) -> c_int {
        // A real device would also wait for its streams here. NCCL frees from
        // helper threads while other operations wait for those threads, and
        // the host program has waited for what uses the memory already.
        if mem::free(p as *mut u8) { OK } else { fail(INVALID) }
    }
    fn cudaMallocAsync(p: *mut *mut c_void, n: size_t, _s: *mut c_void) -> c_int { cudaMalloc(p, n) }
    fn cudaMallocFromPoolAsync(p: *mut *mut c_void, n: size_t, _pool: *mut c_void, _s: *mut c_void) -> c_int {
        cudaMalloc(p, n)
    }
    fn cudaFreeAsync(p: *mut c_void, s: *mut c_void) -> c_int {
        let a = p as usize;
        stream!(s).push_short(Box::new(move || {
            mem::free(a as *mut u8);
        }));
        OK
    }
    fn cudaMemPoolCreate(pool: *mut *mut c_void, _props: *const c_void) -> c_int {
        *pool = 0x100 as *mut c_void;
        OK
    }
    fn cudaMemPoolDestroy(_pool: *mut c_void) -> c_int { OK }
    fn cudaMemPoolSetAttribute(_pool: *mut c_void, _a: c_int, _v: *mut c_void) -> c_int { OK }
    fn cudaMemPoolTrimTo(_pool: *mut c_void, _n: size_t) -> c_int { OK }
    fn cudaDeviceGetDefaultMemPool(pool: *mut *mut c_void, _d: c_int) -> c_int {
        *pool = 0x100 as *mut c_void;
        OK
    }
    fn cudaMallocHost(p: *mut *mut c_void, n: size_t) -> c_int { cudaHostAlloc(p, n, 0) }
    fn cudaHostAlloc(p: *mut *mut c_void, n: size_t, _f: c_uint) -> c_int {
        match mem::alloc(n, Kind::Host, device()) {
            Some(a) => {
                *p = a as *mut c_void;
                OK
            }
            None => fail(NO_MEMORY),
        }
    }
    fn cudaFreeHost(p: *mut c_void) -> c_int {
        if mem::free(p as *mut u8) { OK } else { fail(INVALID) }
    }
    fn cudaHostRegister(_p: *mut c_void, _n: size_t, _f: c_uint) -> c_int { OK }
    fn cudaHostUnregister(_p: *mut c_void) -> c_int { OK }
    fn cudaHostGetDevicePointer(d: *mut *mut c_void, h: *mut c_void, _f: c_uint) -> c_int {
        *d = h;
        OK
    }
    fn cudaPointerGetAttributes(out: *mut u8, p: *const c_void) -> c_int {
        // type, device, devicePointer, hostPointer
        let (ty, dev) = mem::find(p as usize).map_or((0, -2), |b| (b.kind as c_int, b.device));
        (out as *mut c_int).write(ty);
        (out as *mut c_int).add(1).write(dev);
        (out as *mut *const c_void).add(1).write(if ty == 0 { std::ptr::null() } else { p });
        (out as *mut *const c_void).add(2).write(if ty == 1 { p } else { std::ptr::null() });
        OK
    }
    fn cudaMemGetInfo(free: *mut size_t, total: *mut size_t) -> c_int {
        *free = 15 << 30;
        *total = 16 << 30;
        OK
    }
    fn cudaMemset(p: *mut c_void, v: c_int, n: size_t) -> c_int {
        set_job(p, v, n)();
        OK
    }
    fn cudaMemsetAsync(p: *mut c_void, v: c_int, n: size_t, s: *mut c_void) -> c_int {
        stream!(s).submit(set_job(p, v, n), true);
        OK
    }
    fn cudaMemcpy(d: *mut c_void, s: *const c_void, n: size_t, _k: c_int) -> c_int {
        copy_job(d, s, n)();
        OK
    }
    fn cudaMemcpyAsync(d: *mut c_void, s: *const c_void, n: size_t, _k: c_int, st: *mut c_void) -> c_int {
        stream!(st).submit(copy_job(d, s, n), true);
        OK
    }
    fn cudaMemcpyPeerAsync(d: *mut c_void, _dd: c_int, s: *const c_void, _sd: c_int, n: size_t, st: *mut c_void) -> c_int {
        stream!(st).submit(copy_job(d, s, n), true);
        OK
    }

    fn cudaStreamCreate(s: *mut *mut c_void) -> c_int {
        *s = stream::create(device()) as *mut c_void;
        OK
    }
    fn cudaStreamCreateWithFlags(s: *mut *mut c_void, _f: c_uint) -> c_int {
        *s = stream::create(device()) as *mut c_void;
        OK
    }
    fn cudaStreamCreateWithPriority(s: *mut *mut c_void, _f: c_uint, _p: c_int) -> c_int {
        *s = stream::create(device()) as *mut c_void;
        OK
    }
    fn cudaStreamDestroy(s: *mut c_void) -> c_int {
        if stream::destroy(s as usize) { OK } else { fail(BAD_HANDLE) }
    }
    fn cudaStreamSynchronize(s: *mut c_void) -> c_int {
        stream!(s).sync();
        health()
    }
    fn cudaStreamQuery(s: *mut c_void) -> c_int {
        if stream!(s).idle() { health() } else { NOT_READY }
    }
    fn cudaStreamGetId(s: *mut c_void, id: *mut c_ulonglong) -> c_int {
        *id = stream!(s).id;
        OK
    }
    fn cudaStreamGetFlags(_s: *mut c_void, f: *mut c_uint) -> c_int {
        *f = 1;
        OK
    }
    fn cudaStreamGetPriority(_s: *mut c_void, p: *mut c_int) -> c_int {
        *p = 0;
        OK
    }
    fn cudaStreamGetDevice(s: *mut c_void, d: *mut c_int) -> c_int {
        *d = stream!(s).device;
        OK
    }
    fn cudaStreamWaitEvent(s: *mut c_void, e: *mut c_void, _f: c_uint) -> c_int {
        let s = stream!(s);
        let Some(e) = stream::event_get(e as usize) else { return fail(BAD_HANDLE) };
        if let Some(g) = e.capture() {
            // Waiting for a captured event draws the stream into the capture.
            s.set_capture(Some(g));
            return OK;
        }
        if s.capture().is_some() {
            s.submit(Arc::new(move || e.sync()), false);
            return OK;
        }
        if let Some((other, mark)) = e.target() {
            if !std::sync::Arc::ptr_eq(&other, &s) && !other.reached(mark) {
                s.push(Box::new(move || other.wait(mark)));
            }
        }
        OK
    }
    fn cudaStreamIsCapturing(s: *mut c_void, status: *mut c_int) -> c_int {
        *status = stream!(s).capture().is_some() as c_int;
        OK
    }
    // This name stands for two functions: up to CUDA 12 for the one with three
    // arguments, in CUDA 13 for the one with edges.
    fn cudaStreamGetCaptureInfo(s: *mut c_void, status: *mut c_int, id: *mut c_ulonglong, graph: *mut *mut c_void,
                                deps: *mut *const c_void, edges: *mut *const c_void, n: *mut size_t) -> c_int {
        if patch::library().is_some_and(|l| l.cuda >= 13000) {
            return cudaStreamGetCaptureInfo_v3(s, status, id, graph, deps, edges, n);
        }
        capture_info(s, status, id, std::ptr::null_mut())
    }
    fn cudaStreamGetCaptureInfo_v2(s: *mut c_void, status: *mut c_int, id: *mut c_ulonglong, graph: *mut *mut c_void,
                                   deps: *mut *const c_void, n: *mut size_t) -> c_int {
        let r = capture_info(s, status, id, graph);
        no_edges(status, deps, n);
        r
    }
    fn cudaStreamGetCaptureInfo_v3(s: *mut c_void, status: *mut c_int, id: *mut c_ulonglong, graph: *mut *mut c_void,
                                   deps: *mut *const c_void, edges: *mut *const c_void, n: *mut size_t) -> c_int {
        let r = capture_info(s, status, id, graph);
        no_edges(status, deps, n);
        if *status != 0 && !edges.is_null() {
            *edges = std::ptr::null();
        }
        r
    }
    fn cudaStreamUpdateCaptureDependencies(_s: *mut c_void) -> c_int { OK }
    fn cudaStreamUpdateCaptureDependencies_v2(_s: *mut c_void) -> c_int { OK }
    fn cudaGraphAddDependencies(_g: *mut c_void) -> c_int { OK }
    fn cudaGraphAddDependencies_v2(_g: *mut c_void) -> c_int { OK }
    fn cudaStreamBeginCapture(s: *mut c_void, _mode: c_int) -> c_int {
        let g = Graph::new();
        stream!(s).set_capture(Some(g.clone()));
        // Known by its handle from now on: NCCL uses it during the capture.
        stream::graph_add(g);
        OK
    }
    fn cudaStreamEndCapture(s: *mut c_void, graph: *mut *mut c_void) -> c_int {
        let Some(g) = stream!(s).capture() else { return fail(INVALID) };
        stream::end_capture(&g);
        *graph = Arc::as_ptr(&g) as *mut c_void;
        OK
    }
    fn cudaGraphInstantiate(exec: *mut *mut c_void, graph: *mut c_void, _f: c_ulonglong) -> c_int {
        let Some(g) = stream::graph_get(graph as usize) else { return fail(BAD_HANDLE) };
        *exec = stream::graph_add(g.copy()) as *mut c_void;
        OK
    }
    fn cudaGraphInstantiateWithFlags(exec: *mut *mut c_void, graph: *mut c_void, f: c_ulonglong) -> c_int {
        cudaGraphInstantiate(exec, graph, f)
    }
    fn cudaGraphLaunch(exec: *mut c_void, s: *mut c_void) -> c_int {
        let Some(g) = stream::graph_get(exec as usize) else { return fail(BAD_HANDLE) };
        let s = stream!(s);
        let ops = g.ops.lock().unwrap().clone();
        debug!(1, "graph launch of {} operations on stream {}", ops.len(), s.id);
        for op in ops {
            s.submit(op, false);
        }
        OK
    }
    fn cudaGraphExecDestroy(exec: *mut c_void) -> c_int {
        if stream::graph_drop(exec as usize) { OK } else { fail(BAD_HANDLE) }
    }
    fn cudaGraphDestroy(graph: *mut c_void) -> c_int {
        if stream::graph_drop(graph as usize) { OK } else { fail(BAD_HANDLE) }
    }
    fn cudaGraphAddEventRecordNode(node: *mut *mut c_void, graph: *mut c_void, _deps: *const c_void, _n: size_t,
                                   e: *mut c_void) -> c_int {
        let Some(g) = stream::graph_get(graph as usize) else { return fail(BAD_HANDLE) };
        let Some(e) = stream::event_get(e as usize) else { return fail(BAD_HANDLE) };
        g.ops.lock().unwrap().push(Arc::new(move || e.touch()));
        *node = 0x200 as *mut c_void;
        OK
    }
    fn cudaGraphAddEventWaitNode(node: *mut *mut c_void, graph: *mut c_void, _deps: *const c_void, _n: size_t,
                                 e: *mut c_void) -> c_int {
        let Some(g) = stream::graph_get(graph as usize) else { return fail(BAD_HANDLE) };
        let Some(e) = stream::event_get(e as usize) else { return fail(BAD_HANDLE) };
        g.ops.lock().unwrap().push(Arc::new(move || e.sync()));
        *node = 0x200 as *mut c_void;
        OK
    }
    fn cudaGraphAddHostNode(node: *mut *mut c_void, graph: *mut c_void, _deps: *const c_void, _n: size_t,
                            params: *const HostNode) -> c_int {
        let Some(g) = stream::graph_get(graph as usize) else { return fail(BAD_HANDLE) };
        let (f, d) = ((*params).f, (*params).data as usize);
        g.ops.lock().unwrap().push(Arc::new(move || f(d as *mut c_void)));
        *node = 0x200 as *mut c_void;
        OK
    }
    fn cudaUserObjectCreate(object: *mut *mut c_void, p: *mut c_void, f: extern "C" fn(*mut c_void), _n: c_uint,
                            _flags: c_uint) -> c_int {
        *object = Box::into_raw(Box::new(Arc::new(Keep(f, p as usize)))) as *mut c_void;
        OK
    }
    // The only use is to hand the one reference over to the graph.
    fn cudaGraphRetainUserObject(graph: *mut c_void, object: *mut c_void, _n: c_uint, _flags: c_uint) -> c_int {
        let Some(g) = stream::graph_get(graph as usize) else { return fail(BAD_HANDLE) };
        let keep = *Box::from_raw(object as *mut Arc<Keep>);
        g.keeps.lock().unwrap().push(keep);
        OK
    }
    fn cudaLaunchHostFunc(s: *mut c_void, f: extern "C" fn(*mut c_void), data: *mut c_void) -> c_int {
        let d = data as usize;
        stream!(s).submit(Arc::new(move || f(d as *mut c_void)), false);
        OK
    }

    fn cudaEventCreate(e: *mut *mut c_void) -> c_int {
        *e = stream::event_create() as *mut c_void;
        OK
    }
    fn cudaEventCreateWithFlags(e: *mut *mut c_void, _f: c_uint) -> c_int {
        *e = stream::event_create() as *mut c_void;
        OK
    }
    fn cudaEventDestroy(e: *mut c_void) -> c_int {
        if stream::event_destroy(e as usize) { OK } else { fail(BAD_HANDLE) }
    }
    fn cudaEventRecord(e: *mut c_void, s: *mut c_void) -> c_int {
        let s = stream!(s);
        let Some(e) = stream::event_get(e as usize) else { return fail(BAD_HANDLE) };
        e.record(&s);
        OK
    }
    fn cudaEventRecordWithFlags(e: *mut c_void, s: *mut c_void, _f: c_uint) -> c_int { cudaEventRecord(e, s) }
    fn cudaEventQuery(e: *mut c_void) -> c_int {
        let Some(e) = stream::event_get(e as usize) else { return fail(BAD_HANDLE) };
        if e.done() { OK } else { NOT_READY }
    }
    fn cudaEventSynchronize(e: *mut c_void) -> c_int {
        let Some(e) = stream::event_get(e as usize) else { return fail(BAD_HANDLE) };
        e.sync();
        health()
    }
    fn cudaEventElapsedTime(ms: *mut f32, a: *mut c_void, b: *mut c_void) -> c_int {
        let (Some(a), Some(b)) = (stream::event_get(a as usize), stream::event_get(b as usize)) else {
            return fail(BAD_HANDLE);
        };
        *ms = match (a.time(), b.time()) {
            (Some(x), Some(y)) => y.saturating_duration_since(x).as_secs_f32() * 1e3,
            _ => return fail(NOT_READY),
        };
        OK
    }

    fn cudaFuncGetAttributes(out: *mut u8, _f: *const c_void) -> c_int {
        // sizes, then maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion
        std::ptr::write_bytes(out, 0, 40);
        (out.add(24) as *mut c_int).write(1024);
        (out.add(28) as *mut c_int).write(96);
        OK
    }
    fn cudaFuncSetAttribute(_f: *const c_void, _a: c_int, _v: c_int) -> c_int { OK }
    fn cudaGetFuncBySymbol(f: *mut *mut c_void, sym: *mut c_void) -> c_int {
        *f = sym;
        OK
    }
    fn cudaLaunchKernel(f: *mut c_void, gx: c_ulonglong, gz: c_uint, bx: c_ulonglong, bz: c_uint,
                        args: *mut *mut c_void, shm: size_t, s: *mut c_void) -> c_int {
        let _ = (gx, gz, bx, bz, args, shm);
        launch(f, s, std::ptr::null(), 0)
    }
    fn cudaGetDriverEntryPoint(name: *const c_char, f: *mut *mut c_void, _flags: c_ulonglong, status: *mut c_int) -> c_int {
        entry_point(name, f, status)
    }
    fn cudaGetDriverEntryPointByVersion(name: *const c_char, f: *mut *mut c_void, _v: c_uint, _flags: c_ulonglong,
                                        status: *mut c_int) -> c_int {
        entry_point(name, f, status)
    }
    fn cudaProfilerStart() -> c_int { OK }
    fn cudaProfilerStop() -> c_int { OK }
}
