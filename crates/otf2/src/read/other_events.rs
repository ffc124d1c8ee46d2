//! Events that are read by their name only.

use std::ffi::c_void;

use otf2_sys as sys;

use super::event_callbacks::{SUCCESS, deliver};
use crate::EventKind;
use crate::error::{Result, check};

/// One callback per kind: they differ in the arguments that are not looked at.
macro_rules! other_events {
    ($table:ident; $($set:ident: $name:ident($($argument:ty),*);)*) => {$({
        unsafe extern "C" fn callback(
            location: sys::OTF2_LocationRef,
            time: sys::OTF2_TimeStamp,
            user_data: *mut c_void,
            attributes: *mut sys::OTF2_AttributeList,
            $(_: $argument,)*
        ) -> sys::OTF2_CallbackCode {
            // SAFETY: the arguments are those that libotf2 passed to this event callback.
            unsafe { deliver(location, time, user_data, attributes, EventKind::Other(stringify!($name))) };
            SUCCESS
        }
        // SAFETY: the table is alive, and the callback has the type that the header gives it.
        let code = unsafe { sys::$set($table, Some(callback)) };
        check(code, || concat!("read ", stringify!($name)).to_owned())?;
    })*};
}

pub(super) fn register(table: *mut sys::OTF2_GlobalEvtReaderCallbacks) -> Result<()> {
    other_events! { table;
            OTF2_GlobalEvtReaderCallbacks_SetBufferFlushCallback: BufferFlush(sys::OTF2_TimeStamp);
            OTF2_GlobalEvtReaderCallbacks_SetMpiRequestTestCallback: MpiRequestTest(u64);
            OTF2_GlobalEvtReaderCallbacks_SetMpiRequestCancelledCallback: MpiRequestCancelled(u64);
            OTF2_GlobalEvtReaderCallbacks_SetOmpForkCallback: OmpFork(u32);
            OTF2_GlobalEvtReaderCallbacks_SetOmpJoinCallback: OmpJoin();
            OTF2_GlobalEvtReaderCallbacks_SetOmpAcquireLockCallback: OmpAcquireLock(u32, u32);
            OTF2_GlobalEvtReaderCallbacks_SetOmpReleaseLockCallback: OmpReleaseLock(u32, u32);
            OTF2_GlobalEvtReaderCallbacks_SetOmpTaskCreateCallback: OmpTaskCreate(u64);
            OTF2_GlobalEvtReaderCallbacks_SetOmpTaskSwitchCallback: OmpTaskSwitch(u64);
            OTF2_GlobalEvtReaderCallbacks_SetOmpTaskCompleteCallback: OmpTaskComplete(u64);
            OTF2_GlobalEvtReaderCallbacks_SetRmaWinCreateCallback: RmaWinCreate(sys::OTF2_RmaWinRef);
            OTF2_GlobalEvtReaderCallbacks_SetRmaWinDestroyCallback: RmaWinDestroy(sys::OTF2_RmaWinRef);
            OTF2_GlobalEvtReaderCallbacks_SetRmaCollectiveBeginCallback: RmaCollectiveBegin();
            OTF2_GlobalEvtReaderCallbacks_SetRmaCollectiveEndCallback: RmaCollectiveEnd(sys::OTF2_CollectiveOp, sys::OTF2_RmaSyncLevel, sys::OTF2_RmaWinRef, u32, u64, u64);
            OTF2_GlobalEvtReaderCallbacks_SetRmaGroupSyncCallback: RmaGroupSync(sys::OTF2_RmaSyncLevel, sys::OTF2_RmaWinRef, sys::OTF2_GroupRef);
            OTF2_GlobalEvtReaderCallbacks_SetRmaRequestLockCallback: RmaRequestLock(sys::OTF2_RmaWinRef, u32, u64, sys::OTF2_LockType);
            OTF2_GlobalEvtReaderCallbacks_SetRmaAcquireLockCallback: RmaAcquireLock(sys::OTF2_RmaWinRef, u32, u64, sys::OTF2_LockType);
            OTF2_GlobalEvtReaderCallbacks_SetRmaTryLockCallback: RmaTryLock(sys::OTF2_RmaWinRef, u32, u64, sys::OTF2_LockType);
            OTF2_GlobalEvtReaderCallbacks_SetRmaReleaseLockCallback: RmaReleaseLock(sys::OTF2_RmaWinRef, u32, u64);
            OTF2_GlobalEvtReaderCallbacks_SetRmaSyncCallback: RmaSync(sys::OTF2_RmaWinRef, u32, sys::OTF2_RmaSyncType);
            OTF2_GlobalEvtReaderCallbacks_SetRmaWaitChangeCallback: RmaWaitChange(sys::OTF2_RmaWinRef);
            OTF2_GlobalEvtReaderCallbacks_SetRmaAtomicCallback: RmaAtomic(sys::OTF2_RmaWinRef, u32, sys::OTF2_RmaAtomicType, u64, u64, u64);
            OTF2_GlobalEvtReaderCallbacks_SetRmaOpTestCallback: RmaOpTest(sys::OTF2_RmaWinRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetRmaOpCompleteRemoteCallback: RmaOpCompleteRemote(sys::OTF2_RmaWinRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetThreadForkCallback: ThreadFork(sys::OTF2_Paradigm, u32);
            OTF2_GlobalEvtReaderCallbacks_SetThreadJoinCallback: ThreadJoin(sys::OTF2_Paradigm);
            OTF2_GlobalEvtReaderCallbacks_SetThreadTeamBeginCallback: ThreadTeamBegin(sys::OTF2_CommRef);
            OTF2_GlobalEvtReaderCallbacks_SetThreadTeamEndCallback: ThreadTeamEnd(sys::OTF2_CommRef);
            OTF2_GlobalEvtReaderCallbacks_SetThreadAcquireLockCallback: ThreadAcquireLock(sys::OTF2_Paradigm, u32, u32);
            OTF2_GlobalEvtReaderCallbacks_SetThreadReleaseLockCallback: ThreadReleaseLock(sys::OTF2_Paradigm, u32, u32);
            OTF2_GlobalEvtReaderCallbacks_SetThreadTaskCreateCallback: ThreadTaskCreate(sys::OTF2_CommRef, u32, u32);
            OTF2_GlobalEvtReaderCallbacks_SetThreadTaskSwitchCallback: ThreadTaskSwitch(sys::OTF2_CommRef, u32, u32);
            OTF2_GlobalEvtReaderCallbacks_SetThreadTaskCompleteCallback: ThreadTaskComplete(sys::OTF2_CommRef, u32, u32);
            OTF2_GlobalEvtReaderCallbacks_SetThreadCreateCallback: ThreadCreate(sys::OTF2_CommRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetThreadBeginCallback: ThreadBegin(sys::OTF2_CommRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetThreadWaitCallback: ThreadWait(sys::OTF2_CommRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetThreadEndCallback: ThreadEnd(sys::OTF2_CommRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetCallingContextEnterCallback: CallingContextEnter(sys::OTF2_CallingContextRef, u32);
            OTF2_GlobalEvtReaderCallbacks_SetCallingContextLeaveCallback: CallingContextLeave(sys::OTF2_CallingContextRef);
            OTF2_GlobalEvtReaderCallbacks_SetCallingContextSampleCallback: CallingContextSample(sys::OTF2_CallingContextRef, u32, sys::OTF2_InterruptGeneratorRef);
            OTF2_GlobalEvtReaderCallbacks_SetIoCreateHandleCallback: IoCreateHandle(sys::OTF2_IoHandleRef, sys::OTF2_IoAccessMode, sys::OTF2_IoCreationFlag, sys::OTF2_IoStatusFlag);
            OTF2_GlobalEvtReaderCallbacks_SetIoDestroyHandleCallback: IoDestroyHandle(sys::OTF2_IoHandleRef);
            OTF2_GlobalEvtReaderCallbacks_SetIoDuplicateHandleCallback: IoDuplicateHandle(sys::OTF2_IoHandleRef, sys::OTF2_IoHandleRef, sys::OTF2_IoStatusFlag);
            OTF2_GlobalEvtReaderCallbacks_SetIoSeekCallback: IoSeek(sys::OTF2_IoHandleRef, i64, sys::OTF2_IoSeekOption, u64);
            OTF2_GlobalEvtReaderCallbacks_SetIoChangeStatusFlagsCallback: IoChangeStatusFlags(sys::OTF2_IoHandleRef, sys::OTF2_IoStatusFlag);
            OTF2_GlobalEvtReaderCallbacks_SetIoDeleteFileCallback: IoDeleteFile(sys::OTF2_IoParadigmRef, sys::OTF2_IoFileRef);
            OTF2_GlobalEvtReaderCallbacks_SetIoOperationBeginCallback: IoOperationBegin(sys::OTF2_IoHandleRef, sys::OTF2_IoOperationMode, sys::OTF2_IoOperationFlag, u64, u64);
            OTF2_GlobalEvtReaderCallbacks_SetIoOperationTestCallback: IoOperationTest(sys::OTF2_IoHandleRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetIoOperationIssuedCallback: IoOperationIssued(sys::OTF2_IoHandleRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetIoOperationCompleteCallback: IoOperationComplete(sys::OTF2_IoHandleRef, u64, u64);
            OTF2_GlobalEvtReaderCallbacks_SetIoOperationCancelledCallback: IoOperationCancelled(sys::OTF2_IoHandleRef, u64);
            OTF2_GlobalEvtReaderCallbacks_SetIoAcquireLockCallback: IoAcquireLock(sys::OTF2_IoHandleRef, sys::OTF2_LockType);
            OTF2_GlobalEvtReaderCallbacks_SetIoReleaseLockCallback: IoReleaseLock(sys::OTF2_IoHandleRef, sys::OTF2_LockType);
            OTF2_GlobalEvtReaderCallbacks_SetIoTryLockCallback: IoTryLock(sys::OTF2_IoHandleRef, sys::OTF2_LockType);
            OTF2_GlobalEvtReaderCallbacks_SetProgramBeginCallback: ProgramBegin(sys::OTF2_StringRef, u32, *const sys::OTF2_StringRef);
            OTF2_GlobalEvtReaderCallbacks_SetProgramEndCallback: ProgramEnd(i64);
            OTF2_GlobalEvtReaderCallbacks_SetCommCreateCallback: CommCreate(sys::OTF2_CommRef);
            OTF2_GlobalEvtReaderCallbacks_SetCommDestroyCallback: CommDestroy(sys::OTF2_CommRef);
    }
    Ok(())
}
