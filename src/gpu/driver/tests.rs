use cudarc::driver::sys;

use super::*;

/// Which arguments a function takes: only how large each is counts when it is called.
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
        (
            theirs3(sys::cuDevicePrimaryCtxGetState),
            ours3(ours.primary_state),
        ),
        (theirs3(sys::cuDeviceGetName), ours3(ours.device_name)),
        (theirs2(sys::cuDeviceGetUuid), ours2(ours.device_uuid)),
        (
            theirs2(sys::cuDeviceGetUuid_v2),
            ours2(ours.device_uuid_of_instance),
        ),
        (
            theirs3(sys::cuDeviceGetAttribute),
            ours3(ours.device_attribute),
        ),
        (
            theirs1(sys::cuThreadExchangeStreamCaptureMode),
            ours1(ours.exchange_capture_mode),
        ),
        (
            theirs2(sys::cuStreamIsCapturing),
            ours2(ours.stream_is_capturing),
        ),
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

#[test]
fn numbers_are_those_of_the_driver() {
    use sys::CUdevice_attribute as Theirs;
    for (ours, theirs) in [
        (
            Attribute::Multiprocessors,
            Theirs::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        ),
        (Attribute::PciBus, Theirs::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
        (
            Attribute::PciDevice,
            Theirs::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
        ),
        (
            Attribute::PciDomain,
            Theirs::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
        ),
        (
            Attribute::ComputeMajor,
            Theirs::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        ),
        (
            Attribute::ComputeMinor,
            Theirs::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        ),
    ] {
        assert_eq!(ours as u32, theirs as u32, "{ours:?}");
    }
    assert_eq!(
        NON_BLOCKING,
        sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32
    );
    assert_eq!(
        EVENT_DEFAULT,
        sys::CUevent_flags_enum::CU_EVENT_DEFAULT as u32
    );
    assert_eq!(
        NOT_CAPTURING.cast_unsigned(),
        sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32
    );
    assert_eq!(
        RELAXED.cast_unsigned(),
        sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32
    );
}

#[test]
fn codes_have_the_names_that_the_driver_gives_them() {
    use sys::cudaError_enum as Theirs;
    for theirs in [
        Theirs::CUDA_ERROR_INVALID_VALUE,
        Theirs::CUDA_ERROR_OUT_OF_MEMORY,
        Theirs::CUDA_ERROR_NOT_INITIALIZED,
        Theirs::CUDA_ERROR_DEINITIALIZED,
        Theirs::CUDA_ERROR_STUB_LIBRARY,
        Theirs::CUDA_ERROR_NO_DEVICE,
        Theirs::CUDA_ERROR_INVALID_DEVICE,
        Theirs::CUDA_ERROR_INVALID_CONTEXT,
        Theirs::CUDA_ERROR_INVALID_HANDLE,
        Theirs::CUDA_ERROR_NOT_READY,
        Theirs::CUDA_ERROR_ILLEGAL_ADDRESS,
        Theirs::CUDA_ERROR_LAUNCH_TIMEOUT,
        Theirs::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        Theirs::CUDA_ERROR_LAUNCH_FAILED,
        Theirs::CUDA_ERROR_NOT_PERMITTED,
        Theirs::CUDA_ERROR_NOT_SUPPORTED,
        Theirs::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        Theirs::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        Theirs::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        Theirs::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        Theirs::CUDA_ERROR_UNKNOWN,
    ] {
        let number = (theirs as u32).cast_signed();
        let said = Refusal(number).to_string();
        assert_eq!(said, format!("{theirs:?} ({number})"));
    }
    for (ours, theirs) in [
        (Refusal::DEINITIALIZED, Theirs::CUDA_ERROR_DEINITIALIZED),
        (Refusal::STUB_LIBRARY, Theirs::CUDA_ERROR_STUB_LIBRARY),
        (Refusal::NOT_READY, Theirs::CUDA_ERROR_NOT_READY),
        (Refusal::NOT_PERMITTED, Theirs::CUDA_ERROR_NOT_PERMITTED),
    ] {
        assert_eq!(ours.0.cast_unsigned(), theirs as u32);
    }
    for of_capture in [
        Theirs::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        Theirs::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
    ] {
        assert!(Refusal((of_capture as u32).cast_signed()).is_of_capture());
    }
}
