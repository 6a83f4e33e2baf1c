// SPDX-License-Identifier: GPL-2.0
#include "rds_host.h"

#include <kapi/errno.h>

#include <algorithm>
#include <utility>

#include "net/rds/uapi.h"

int RdsHost::start_rds()
{
    rds_ = &node_.load_module("rds");
    if (int err = rds_core_init())
        return err;
    for (const auto &host : node_.nets()) {
        nets_.push_back({host.get(), nullptr, nullptr, nullptr});
        if (int err = rds_net_create(host.get(), &nets_.back().rds)) {
            nets_.pop_back();
            unload_rds_nets();
            rds_core_exit();
            return err;
        }
    }
    return 0;
}

int RdsHost::start_tcp()
{
    tcp_ = &node_.load_module("rds_tcp");
    if (int err = rds_tcp_core_init(tcp_))
        return err;
    for (Net &net : nets_) {
        if (int err = rds_tcp_net_create(net.host, &net.tcp)) {
            net.tcp = nullptr;
            end_tcp();
            return err;
        }
    }
    if (int err = rds_tcp_core_publish()) {
        end_tcp();
        return err;
    }
    return 0;
}

int RdsHost::start_rdma()
{
    rdma_ = &node_.load_module("rds_rdma");
    if (int err = rds_rdma_core_init(rdma_))
        return err;
    for (Net &net : nets_) {
        if (int err = rds_rdma_net_create(net.host, &net.rdma)) {
            net.rdma = nullptr;
            end_rdma();
            return err;
        }
    }
    if (int err = rds_rdma_core_publish()) {
        end_rdma();
        return err;
    }
    return 0;
}

int RdsHost::load_rdma()
{
    int err = start_rdma();
    if (err)
        node_.unload_done(*std::exchange(rdma_, nullptr));
    return err;
}

void RdsHost::end_rdma()
{
    for (Net &net : nets_)
        if (net.rdma)
            rds_rdma_net_destroy(std::exchange(net.rdma, nullptr));
    rds_rdma_core_exit();
}

bool RdsHost::unload_rdma()
{
    if (!node_.start_unload(*rdma_))
        return false;
    rds_rdma_core_withdraw();
    end_rdma();
    node_.unload_done(*std::exchange(rdma_, nullptr));
    return true;
}

int RdsHost::load_rds()
{
    int err = start_rds();
    if (err)
        node_.unload_done(*std::exchange(rds_, nullptr));
    else
        kapi_report_register(rds_, rds_report_tables, rds_report_table_count);
    return err;
}

int RdsHost::load_tcp()
{
    int err = start_tcp();
    if (err) // like the kernel's loader, without checking references
        node_.unload_done(*std::exchange(tcp_, nullptr));
    return err;
}

int RdsHost::load()
{
    int err = load_rds();
    if (err)
        return err;
    err = load_tcp();
    if (err) {
        unload_rds_nets();
        rds_core_exit();
        node_.unload_done(*std::exchange(rds_, nullptr));
    }
    return err;
}

void RdsHost::end_tcp()
{
    for (Net &net : nets_)
        if (net.tcp)
            rds_tcp_net_destroy(std::exchange(net.tcp, nullptr));
    rds_tcp_core_exit();
}

void RdsHost::unload_rds_nets()
{
    kapi_report_unregister(rds_report_tables, rds_report_table_count);
    for (Net &net : nets_)
        rds_net_destroy(net.rds);
    nets_.clear();
}

bool RdsHost::unload_tcp()
{
    if (!node_.start_unload(*tcp_))
        return false;
    rds_tcp_core_withdraw();
    end_tcp();
    node_.unload_done(*std::exchange(tcp_, nullptr));
    return true;
}

bool RdsHost::unload()
{
    if (rdma_ && !unload_rdma())
        return false;
    if (tcp_ && !unload_tcp())
        return false;
    if (!node_.start_unload(*rds_))
        return false;
    unload_rds_nets();
    rds_core_exit();
    node_.unload_done(*std::exchange(rds_, nullptr));
    return true;
}

bool RdsHost::unload_soon()
{
    for (int i = 0; i < 100; i++) {
        if (unload())
            return true;
        node_.world().sleep(10 * sim::kMillisecond);
    }
    return false;
}

RdsHost::Net &RdsHost::net(const kapi_net &host)
{
    auto found = std::find_if(nets_.begin(), nets_.end(), [&](const Net &net) { return net.host == &host; });
    if (found == nets_.end())
        sim::broken("RDS is not in this namespace");
    return *found;
}

int RdsHost::add_net(kapi_net &host)
{
    Net made{&host, nullptr, nullptr, nullptr};
    if (int err = rds_net_create(&host, &made.rds))
        return err;
    if (int err = rds_tcp_net_create(&host, &made.tcp)) {
        rds_net_destroy(made.rds);
        return err;
    }
    if (int err = rdma_ ? rds_rdma_net_create(&host, &made.rdma) : 0) {
        rds_tcp_net_destroy(made.tcp);
        rds_net_destroy(made.rds);
        return err;
    }
    nets_.push_back(made);
    return 0;
}

/** A socket that is being released still holds its namespace. */
bool RdsHost::wait_for_sockets(sim::World &world, const std::vector<kapi_net *> &hosts)
{
    auto held = [&] { return std::any_of(hosts.begin(), hosts.end(), [](const kapi_net *h) { return h->sockets; }); };
    for (int i = 0; i < 100 && held(); i++)
        world.sleep(10 * sim::kMillisecond);
    return !held();
}

bool RdsHost::delete_nets(const std::vector<kapi_net *> &hosts)
{
    if (!wait_for_sockets(node_.world(), hosts))
        return false;
    for (kapi_net *host : hosts)
        host->going = true;
    for (kapi_net *host : hosts) {
        if (net(*host).rdma)
            rds_rdma_net_destroy(std::exchange(net(*host).rdma, nullptr));
        rds_tcp_net_destroy(std::exchange(net(*host).tcp, nullptr));
    }
    for (kapi_net *host : hosts) {
        rds_net_destroy(net(*host).rds);
        std::erase_if(nets_, [&](const Net &net) { return net.host == host; });
    }
    for (kapi_net *host : hosts)
        node_.remove_net(*host);
    return true;
}

void RdsHost::forget()
{
    rds_ = tcp_ = rdma_ = nullptr;
    nets_.clear();
}
