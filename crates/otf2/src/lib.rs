//! The safe subset of OTF2 that this workspace uses.
