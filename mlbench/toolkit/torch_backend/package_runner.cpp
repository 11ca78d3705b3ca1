// Runs a package that torch's inductor compiled, for Python. torch's own binding keeps Python's lock for the whole call,
// so that neither another worker nor LoadGen gets to do anything; methods of a class registered here let go of it.

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/custom_class.h>

namespace {

class Package : public torch::CustomClassHolder {
 public:
  explicit Package(const std::string& path) : loader_(path) {}

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) {
    return loader_.run(inputs);
  }

 private:
  torch::inductor::AOTIModelPackageLoader loader_;
};

TORCH_LIBRARY(mlbench, library) {
  library.class_<Package>("Package")
      .def(torch::init<const std::string&>())
      .def("run", [](const c10::intrusive_ptr<Package>& self, const std::vector<at::Tensor>& inputs) {
        return self->run(inputs);
      });
}

}  // namespace
