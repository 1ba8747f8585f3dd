"""A volume driver for Cinder whose volumes hold no bytes."""
from cinder.tests import fake_driver


class VolumeDriver(fake_driver.FakeLoggingVolumeDriver):
    """Cinder's own fake, which lacks volumes made of images and larger ones."""

    def clone_image(self, context, volume, image_location, image_meta,
                    image_service):
        # "Cloned already": else the image's bytes are copied to a device
        # that isn't there.
        return {}, True

    def extend_volume(self, volume, new_size):
        pass
