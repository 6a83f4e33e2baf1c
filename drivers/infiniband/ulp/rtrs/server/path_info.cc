// SPDX-License-Identifier: GPL-2.0
// What the client of a path is given: the session's chunks, in regions that become valid when it asks for information.
#include "path.h"

#include "context.h"

namespace rtrs_srv {

Result<> Path::prepare()
{
    const Settings& settings = Module::get().settings;
    TRY(session_->make_chunks());
    held_ = static_cast<Held*>(kapi_zalloc(session_->chunks.count() * sizeof(Held), KAPI_SLEEP));
    Own<Regions> regions(make<Regions>(Alloc::sleep));
    if (!held_ || !regions)
        return fail(KAPI_ENOMEM);
    TRY(regions->make(dev_, device_->attrs, session_->chunks, settings.geometry, settings.always_invalidate,
                      Module::get().budget));
    regions_ = std::move(regions);
    return {};
}

Result<> Path::give_info(u32 events)
{
    if (events & info_sent)
        info_response_ = Buffer();
    if (events & info_asked)
        TRY(take_request());
    if (info_ == Info::waits && TRY(may_register())) {
        info_ = Info::registers;
        TRY(register_more());
    } else if (info_ == Info::registers && (events & registered)) {
        if (next_region_ < regions_->count())
            TRY(register_more());
        else
            TRY(write_info());
    } else if (info_ == Info::announces && (events & announced)) {
        TRY(up());
    }
    return {};
}

Result<> Path::take_request()
{
    if (info_ != Info::none || opened_ != count_)
        return fail(KAPI_EPROTO);
    info_ = Info::waits;
    return {};
}

// Both waits end with others_ended, or when the path has been half open for too long. A session whose paths are all over still
// has its name and its folder, and a client that was started again asks for that name. And a client may have reconnected sooner
// than the user has ended what came over its old paths, and would write into chunks that the user still reads or fills.
Result<bool> Path::may_register()
{
    SessionName name = TRY(parse_info_request(service().info_request()));
    return TRY(session_->context().claim_name(*session_, name)) && !session_->has_closing_path();
}

Result<> Path::register_more()
{
    next_region_ += TRY(service().register_regions(next_region_));
    return {};
}

Result<> Path::write_info()
{
    u32 regions = regions_->count();
    u32 length = static_cast<u32>(info_response_bytes(regions));
    info_response_ = TRY(Buffer::create(dev_, regions_->pd(), length, KAPI_MAP_TO_DEVICE));
    auto* descriptors = static_cast<wire::Descriptor*>(kapi_zalloc(regions * sizeof(wire::Descriptor), KAPI_SLEEP));
    if (!descriptors)
        return fail(KAPI_ENOMEM);
    for (u32 i = 0; i < regions; i++)
        descriptors[i] = regions_->describe(i);
    info_response_.sync(0, length, KAPI_MAP_FOR_CPU);
    write_info_response({info_response_.bytes(), length}, {descriptors, regions});
    info_response_.sync(0, length, KAPI_MAP_FOR_DEVICE);
    kapi_free(descriptors);
    info_ = Info::announces;
    operation_began();
    announce_.queue(session_->calls());
    return {};
}

// The user may take as long over a session as a disk does, and other sessions do not wait for that.
void Path::announce()
{
    Result<> known = session_->show(*this);
    if (known)
        known = session_->path_up(may_begin_);
    is_up_ = known.has_value();
    refusal_ = known ? 0 : known.error().code();
    notify(announced);
    operation_ended(); // nothing of the path is used after this
}

Result<> Path::up()
{
    if (refusal_)
        return fail(Errno(refusal_));
    {
        Guard guard(lock_);
        change(PathEvent::up);
    }
    takes_requests_.store_release(true);
    info_ = Info::given;
    return service().send_info(info_response_, info_response_.size());
}

} // namespace rtrs_srv
