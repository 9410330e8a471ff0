//! Tests of the whole engine. The servers are test servers in this process, reached over loopback.

mod allocation;
mod command_line;
mod connections;
mod decryption;
mod gateway;
mod gateway_limits;
mod hosts;
mod http;
mod mysql;
mod origin;
mod postgres;
mod redis;
mod relay;
mod support;
