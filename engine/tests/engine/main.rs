//! The engine against servers of these tests' own, in this process, on loopback: what cannot be seen beside the code.

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
mod support;
