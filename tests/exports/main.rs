//! What `nccl-otf2 export` writes, as the programs read it that it is written for.

mod chakra;
mod jsonl;
mod kineto;
mod nccl_tests;
mod parquet;
mod perfetto;
mod python;
mod scalasca;
