//! Defines what is bound, for the build script and for the test that regenerates the checked-in file.

use std::path::{Path, PathBuf};

/// Functions that the safe crate calls, and related ones that it is likely to need next.
const FUNCTIONS: &[&str] = &[
    "OTF2_Archive_(Open|Close|Set(Flush|Memory|Collective|SerialCollective)Callbacks)",
    "OTF2_Archive_Set(MachineName|Description|Creator|Property|DefChunkSize)",
    "OTF2_Archive_(Get|Close)(Evt|Def|GlobalDef)Writer",
    "OTF2_AttributeList_(New|Delete|AddAttribute|RemoveAllAttributes|GetNumberOfElements|GetAttributeByIndex)",
    "OTF2_DefReaderCallbacks_(New|Delete|Set(MappingTable|ClockOffset)Callback)",
    "OTF2_DefWriter_Write(MappingTable|ClockOffset)",
    "OTF2_Error_(GetName|GetDescription)",
    "OTF2_EvtWriter_(GetNumberOfEvents|MeasurementOnOff|Enter|Leave|Metric|Parameter.*)",
    "OTF2_EvtWriter_Mpi(Send|Recv|Isend|IsendComplete|IrecvRequest|Irecv|CollectiveBegin|CollectiveEnd)",
    "OTF2_EvtWriter_NonBlockingCollective(Request|Complete)",
    "OTF2_EvtWriter_Rma(Put|Get|OpCompleteBlocking|OpCompleteNonBlocking|WinCreate|WinDestroy)",
    "OTF2_EvtWriter_(Program(Begin|End)|CallingContext(Enter|Leave))",
    "OTF2_EvtWriter_Io((Create|Destroy)Handle|Operation(Begin|Complete))",
    "OTF2_EvtWriter_(Thread(Fork|Join|TeamBegin|TeamEnd)|BufferFlush)",
    "OTF2_GlobalDefReaderCallbacks_(New|Delete|Set.*)",
    "OTF2_GlobalDefWriter_Write(ClockProperties|Paradigm|ParadigmProperty|String|Attribute)",
    "OTF2_GlobalDefWriter_Write(SystemTreeNode|SystemTreeNodeProperty|SystemTreeNodeDomain)",
    "OTF2_GlobalDefWriter_Write(Location|LocationProperty|LocationGroup|LocationGroupProperty)",
    "OTF2_GlobalDefWriter_Write(Region|Group|Comm|RmaWin|Parameter|MetricMember|MetricClass|MetricInstance)",
    "OTF2_GlobalDefWriter_Write(InterComm|MetricClassRecorder|Callsite|Callpath|CallpathParameter)",
    "OTF2_GlobalDefWriter_Write(SourceCodeLocation|CallingContext|CallingContextProperty|InterruptGenerator)",
    "OTF2_GlobalDefWriter_WriteCart(Dimension|Topology|Coordinate)",
    "OTF2_GlobalDefWriter_WriteIo(Paradigm|RegularFile|Directory|FileProperty|Handle|PreCreatedHandleState)",
    "OTF2_GlobalEvtReaderCallbacks_(New|Delete|Set.*)",
    "OTF2_GlobalEvtReader_(HasEvent|ReadEvent)",
    "OTF2_IdMap_(Create|CreateFromUint32Array|AddIdPair|Free|GetMode|GetSize|Traverse)",
    "OTF2_Reader_(Open|Close|SetSerialCollectiveCallbacks|Register(GlobalEvt|GlobalDef|Def)Callbacks)",
    "OTF2_Reader_(Read(AllLocalDefinitions|AllGlobalDefinitions)|Get(Evt|Def|GlobalEvt|GlobalDef)Reader)",
    "OTF2_Reader_Close(Evt|Def|GlobalEvt|GlobalDef)Reader",
    "OTF2_Reader_Get(Version|ChunkSize|NumberOfLocations|NumberOfGlobalDefinitions|MachineName|Creator|Description)",
    "OTF2_Reader_Get(PropertyNames|Property|TraceId|NumberOfSnapshots|NumberOfThumbnails)",
    "OTF2_Reader_((Open|Close)(Evt|Def)Files|SelectLocation)",
];

/// The enumerations behind the `uint8_t` types: bindgen omits the constants unless the enumerations are listed.
const ENUMERATIONS: &[&str] = &[
    "OTF2_(FileMode|FileType|FileSubstrate|Compression|FlushType|IdMapMode|MappingType|Type|CallbackCode)_enum",
    "OTF2_(LocationType|LocationGroupType|SystemTreeDomain|GroupType|GroupFlag|CommFlag|RmaWinFlag)_enum",
    "OTF2_(RegionRole|RegionFlag|Paradigm|ParadigmClass|ParadigmProperty|ParameterType|CollectiveOp)_enum",
    "OTF2_(MetricType|MetricMode|MetricOccurrence|MetricScope|Base|RecorderKind|MeasurementMode)_enum",
];

const CONSTANTS: &[&str] = &["OTF2_VERSION(_.*)?", "OTF2_(SUCCESS|WARNING|ABORT|DEPRECATED|INVALID|ERROR_.*)"];

/// Types whose layout depends on the platform's `va_list`; `src/error_callback.rs` declares them by hand.
const BY_HAND: &[&str] = &["va_list", "__builtin_va_list", "__va_list_tag", "OTF2_ErrorCallback"];

/// The bindings of `wrapper.h` with the headers found in `include_directories`.
pub(crate) fn bindings(wrapper: &Path, include_directories: &[PathBuf]) -> Result<String, String> {
    let mut builder = bindgen::Builder::default()
        .header(wrapper.display().to_string())
        .clang_args(include_directories.iter().map(|path| format!("-I{}", path.display())))
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(true)
        .use_core()
        .formatter(bindgen::Formatter::Prettyplease);
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    for constant in CONSTANTS {
        builder = builder.allowlist_var(constant);
    }
    for name in ENUMERATIONS {
        builder = builder.allowlist_type(name);
    }
    for name in BY_HAND {
        builder = builder.blocklist_type(name);
    }
    match builder.generate() {
        Ok(bindings) => Ok(bindings.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
