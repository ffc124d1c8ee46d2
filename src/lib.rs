//! NCCL profiler plugin that records what NCCL does and writes it as OTF2 archives.
