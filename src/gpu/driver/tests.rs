use super::*;
use cudarc::driver::sys;

/// The sizes of a function's arguments; nothing else matters in a call.
macro_rules! sizes {
    ($theirs:ident, $ours:ident, $($argument:ident),+) => {
        fn $theirs<$($argument),+>(_: unsafe fn($($argument),+) -> sys::CUresult) -> Vec<usize> {
            vec![$(size_of::<$argument>()),+]
        }
        fn $ours<$($argument),+>(_: Option<unsafe extern "C" fn($($argument),+) -> c_int>) -> Vec<usize> {
            vec![$(size_of::<$argument>()),+]
        }
    };
}
sizes!(theirs1, ours1, A);
sizes!(theirs2, ours2, A, B);
sizes!(theirs3, ours3, A, B, C);

#[test]
fn functions_are_called_as_they_are_declared() {
    let ours = Functions::default();
    assert_eq!(size_of::<sys::CUresult>(), size_of::<c_int>());
    for (theirs, ours) in [
        (theirs1(sys::cuDriverGetVersion), ours1(ours.driver_version)),
        (theirs1(sys::cuCtxGetCurrent), ours1(ours.context_current)),
        (theirs1(sys::cuCtxGetDevice), ours1(ours.context_device)),
        (theirs1(sys::cuCtxPushCurrent_v2), ours1(ours.context_push)),
        (theirs1(sys::cuCtxPopCurrent_v2), ours1(ours.context_pop)),
        (theirs3(sys::cuDevicePrimaryCtxGetState), ours3(ours.primary_state)),
        (theirs3(sys::cuDeviceGetName), ours3(ours.device_name)),
        (theirs2(sys::cuDeviceGetUuid), ours2(ours.device_uuid)),
        (theirs2(sys::cuDeviceGetUuid_v2), ours2(ours.device_uuid_of_instance)),
        (theirs3(sys::cuDeviceGetAttribute), ours3(ours.device_attribute)),
        (theirs1(sys::cuThreadExchangeStreamCaptureMode), ours1(ours.exchange_capture_mode)),
        (theirs2(sys::cuStreamIsCapturing), ours2(ours.stream_is_capturing)),
        (theirs2(sys::cuStreamCreate), ours2(ours.stream_create)),
        (theirs1(sys::cuStreamDestroy_v2), ours1(ours.stream_destroy)),
        (theirs2(sys::cuEventCreate), ours2(ours.event_create)),
        (theirs2(sys::cuEventRecord), ours2(ours.event_record)),
        (theirs1(sys::cuEventQuery), ours1(ours.event_query)),
        (theirs3(sys::cuEventElapsedTime), ours3(ours.event_elapsed)),
        (theirs1(sys::cuEventDestroy_v2), ours1(ours.event_destroy)),
    ] {
        assert_eq!(ours, theirs);
    }
}
