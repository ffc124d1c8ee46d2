//! Calls that do not return, simulated by functions of the test.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::gpu::cupti::Cupti;
use crate::gpu::cupti::buffers::Calls;
use crate::gpu::cupti::session::{Session, Settings};
use crate::gpu::cupti::tests::rig::{Recorded, launch_of, next_id};
use crate::gpu::driver;
use crate::gpu::driver::Driver;
use crate::gpu::output::Backend as _;
use cupti_sys::Functions;
use cupti_sys::functions::{Callback, Subscriber};
use nccl_events::Kind;
use nccl_events::gpu::GpuCount;

static UNSUBSCRIBED: AtomicU32 = AtomicU32::new(0);

extern "C" fn subscribe(_: *mut Subscriber, _: Callback, _: *mut c_void) -> c_int {
    0
}

extern "C" fn unsubscribe(_: Subscriber) -> c_int {
    UNSUBSCRIBED.fetch_add(1, Ordering::Relaxed);
    0
}

extern "C" fn push(_: u32, _: u64) -> c_int {
    0
}

extern "C" fn dropped(_: *mut c_void, _: u32, number: *mut usize) -> c_int {
    // SAFETY: the caller passes a place for the number, as it does to CUPTI.
    unsafe { number.write(0) };
    0
}

extern "C" fn hang(_: u32) -> c_int {
    std::thread::sleep(Duration::from_secs(3600));
    0
}

#[test]
fn a_flush_that_hangs_delays_nothing() {
    let functions = Functions {
        subscribe: Some(subscribe),
        unsubscribe: Some(unsubscribe),
        push: Some(push),
        get_dropped: Some(dropped),
        flush_all: Some(hang),
        ..Functions::default()
    };
    let calls = Calls::subscribe_global(functions).unwrap();
    let cupti = Cupti::new(Session::with_calls(calls), Settings::default(), Driver::new(driver::Functions::default()));
    let mut output = Recorded::default();
    cupti.begins(launch_of(next_id(Kind::KernelLaunch)));
    let began = Instant::now();
    cupti.collect(&mut output);
    assert!(began.elapsed() < Duration::from_secs(5));
    let began = Instant::now();
    cupti.finish(&mut output, began + Duration::from_millis(300));
    assert!(began.elapsed() < Duration::from_secs(5));
    output.one_fault("has not returned its records");
    assert_eq!(output.get(GpuCount::Unfinished), 1);
    // The hanging call may still need the subscription.
    assert_eq!(UNSUBSCRIBED.load(Ordering::Relaxed), 0);
}
