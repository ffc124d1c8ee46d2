//! Definitions that are counted only.

use std::ffi::c_void;

use otf2_sys as sys;

use super::definition_callbacks::{SUCCESS, count};
use crate::error::{Result, check};

/// One callback per kind: they differ in the arguments that are not looked at.
macro_rules! other_definitions {
    ($table:ident; $($set:ident: $name:ident($($argument:ty),*);)*) => {$({
        unsafe extern "C" fn callback(
            user_data: *mut c_void,
            $(_: $argument,)*
        ) -> sys::OTF2_CallbackCode {
            // SAFETY: the user data is what `definitions::read` registered.
            unsafe { count(user_data, stringify!($name)) };
            SUCCESS
        }
        // SAFETY: the table is alive, and the callback has the type that the header gives it.
        let code = unsafe { sys::$set($table, Some(callback)) };
        check(code, || concat!("read ", stringify!($name)).to_owned())?;
    })*};
}

pub(super) fn register(table: *mut sys::OTF2_GlobalDefReaderCallbacks) -> Result<()> {
    other_definitions! { table;
            OTF2_GlobalDefReaderCallbacks_SetIoParadigmCallback: IoParadigm(sys::OTF2_IoParadigmRef, sys::OTF2_StringRef, sys::OTF2_StringRef, sys::OTF2_IoParadigmClass, sys::OTF2_IoParadigmFlag, u8, *const sys::OTF2_IoParadigmProperty, *const sys::OTF2_Type, *const sys::OTF2_AttributeValue);
            OTF2_GlobalDefReaderCallbacks_SetCallsiteCallback: Callsite(sys::OTF2_CallsiteRef, sys::OTF2_StringRef, u32, sys::OTF2_RegionRef, sys::OTF2_RegionRef);
            OTF2_GlobalDefReaderCallbacks_SetCallpathCallback: Callpath(sys::OTF2_CallpathRef, sys::OTF2_CallpathRef, sys::OTF2_RegionRef);
            OTF2_GlobalDefReaderCallbacks_SetMetricInstanceCallback: MetricInstance(sys::OTF2_MetricRef, sys::OTF2_MetricRef, sys::OTF2_LocationRef, sys::OTF2_MetricScope, u64);
            OTF2_GlobalDefReaderCallbacks_SetMetricClassRecorderCallback: MetricClassRecorder(sys::OTF2_MetricRef, sys::OTF2_LocationRef);
            OTF2_GlobalDefReaderCallbacks_SetCartDimensionCallback: CartDimension(sys::OTF2_CartDimensionRef, sys::OTF2_StringRef, u32, sys::OTF2_CartPeriodicity);
            OTF2_GlobalDefReaderCallbacks_SetCartTopologyCallback: CartTopology(sys::OTF2_CartTopologyRef, sys::OTF2_StringRef, sys::OTF2_CommRef, u8, *const sys::OTF2_CartDimensionRef);
            OTF2_GlobalDefReaderCallbacks_SetCartCoordinateCallback: CartCoordinate(sys::OTF2_CartTopologyRef, u32, u8, *const u32);
            OTF2_GlobalDefReaderCallbacks_SetSourceCodeLocationCallback: SourceCodeLocation(sys::OTF2_SourceCodeLocationRef, sys::OTF2_StringRef, u32);
            OTF2_GlobalDefReaderCallbacks_SetCallingContextCallback: CallingContext(sys::OTF2_CallingContextRef, sys::OTF2_RegionRef, sys::OTF2_SourceCodeLocationRef, sys::OTF2_CallingContextRef);
            OTF2_GlobalDefReaderCallbacks_SetCallingContextPropertyCallback: CallingContextProperty(sys::OTF2_CallingContextRef, sys::OTF2_StringRef, sys::OTF2_Type, sys::OTF2_AttributeValue);
            OTF2_GlobalDefReaderCallbacks_SetInterruptGeneratorCallback: InterruptGenerator(sys::OTF2_InterruptGeneratorRef, sys::OTF2_StringRef, sys::OTF2_InterruptGeneratorMode, sys::OTF2_Base, i64, u64);
            OTF2_GlobalDefReaderCallbacks_SetIoFilePropertyCallback: IoFileProperty(sys::OTF2_IoFileRef, sys::OTF2_StringRef, sys::OTF2_Type, sys::OTF2_AttributeValue);
            OTF2_GlobalDefReaderCallbacks_SetIoRegularFileCallback: IoRegularFile(sys::OTF2_IoFileRef, sys::OTF2_StringRef, sys::OTF2_SystemTreeNodeRef);
            OTF2_GlobalDefReaderCallbacks_SetIoDirectoryCallback: IoDirectory(sys::OTF2_IoFileRef, sys::OTF2_StringRef, sys::OTF2_SystemTreeNodeRef);
            OTF2_GlobalDefReaderCallbacks_SetIoHandleCallback: IoHandle(sys::OTF2_IoHandleRef, sys::OTF2_StringRef, sys::OTF2_IoFileRef, sys::OTF2_IoParadigmRef, sys::OTF2_IoHandleFlag, sys::OTF2_CommRef, sys::OTF2_IoHandleRef);
            OTF2_GlobalDefReaderCallbacks_SetIoPreCreatedHandleStateCallback: IoPreCreatedHandleState(sys::OTF2_IoHandleRef, sys::OTF2_IoAccessMode, sys::OTF2_IoStatusFlag);
            OTF2_GlobalDefReaderCallbacks_SetCallpathParameterCallback: CallpathParameter(sys::OTF2_CallpathRef, sys::OTF2_ParameterRef, sys::OTF2_Type, sys::OTF2_AttributeValue);
            OTF2_GlobalDefReaderCallbacks_SetInterCommCallback: InterComm(sys::OTF2_CommRef, sys::OTF2_StringRef, sys::OTF2_GroupRef, sys::OTF2_GroupRef, sys::OTF2_CommRef, sys::OTF2_CommFlag);
        OTF2_GlobalDefReaderCallbacks_SetUnknownCallback: Unknown();
    }
    Ok(())
}
